"""One module per leg: what it runs, what it checks, and what it reports."""
