"""Files and standard input as sources of records: JSONL and CSV, read in bounded memory, resumed exactly."""
