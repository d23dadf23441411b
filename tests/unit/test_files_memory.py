"""Memory while a file is read does not grow with the file. Each reading has a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

READER = """
import asyncio, json, resource, sys
from assay.adapters.files.source import open_source

async def main():
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    source = await open_source(sys.argv[1])
    items = 0
    async for batch in source.read():
        items += len(batch)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base
    print(json.dumps([items, source.total, grown // 1024]))

asyncio.run(main())
"""


def read_alone(file: Path) -> tuple[int, int, int]:
    """Items read, items announced, and by how many MiB the peak of memory grew."""
    answer = subprocess.run([sys.executable, "-c", READER, str(file)], capture_output=True, check=True)
    items, total, grown = json.loads(answer.stdout)
    return items, total, grown


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
def test_one_line_of_200_megabytes(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    with file.open("wb") as stream:
        stream.write(b'id,text\n1,"' if name == "in.csv" else b'{"text": "')
        for _ in range(200):
            stream.write(b"x" * 1_000_000)
        stream.write(b'"\n2,ok\n' if name == "in.csv" else b'"}\n{"text": "ok"}\n')
    items, total, grown = read_alone(file)
    assert items == total == 2
    assert grown < 60


@pytest.mark.scale
@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
def test_a_million_rows(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    with file.open("w", encoding="utf-8") as stream:
        if name == "in.csv":
            stream.write("id,text\n")
        for number in range(1_000_000):
            text = f"My card was charged twice, order {number}, please help"
            stream.write(f'{number},"{text}"\n' if name == "in.csv" else json.dumps({"text": text}) + "\n")
    items, total, grown = read_alone(file)
    assert items == total == 1_000_000
    assert grown < 30
