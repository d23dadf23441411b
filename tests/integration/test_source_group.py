"""Several sources in one run, against PostgreSQL: own checkpoints, own offsets, and files that grow."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from stores import Bench, Station, open_bench

from assay.adapters.files.follow import Following
from assay.adapters.files.source import Reading, open_sources
from assay.adapters.postgres.content_store import ContentStore
from assay.domain.failures import AssayError
from assay.domain.identity import InputRecord, MalformedInput, SourceItem
from assay.domain.offsets import OffsetLedger
from assay.domain.work import Isolation, Offer, Verdict
from assay.pipeline.source_group import GroupedClaims, GroupedSources, SourceGroup
from assay.ports import Content


@pytest.fixture
def bench(db_url: str) -> Iterator[Bench]:
    with open_bench(db_url) as found:
        yield found


class Run:
    """One run over some files as a worker does it, but for the model: claims, isolates, commits."""

    def __init__(self, station: Station, paths: Sequence[Path], *, follow: bool = False) -> None:
        self.station = station
        self.paths = [str(path) for path in paths]
        self.reading = Reading(following=Following(poll=0.01) if follow else None)
        self.ledger = OffsetLedger()
        self.offered: list[str] = []
        self.isolated = 0
        self.skipped = 0

    async def begin(self) -> AsyncGenerator[Sequence[SourceItem], None]:
        """Registers; the items."""
        sources = await open_sources(self.paths, self.reading)
        contents = ContentStore(self.station.pool)
        self.group = SourceGroup(sources, self.station.sources, contents, mapping="{}", stream_id=uuid4)
        self.claims = GroupedClaims(self.station.claims, self.group)
        self.sources = GroupedSources(self.station.sources, self.group)
        self.skipped = await self.group.begin()
        return self.group.read(0)

    async def take(self, batch: Sequence[SourceItem]) -> None:
        """What the rooms of a worker do with a batch."""
        for item in batch:
            self.ledger.deliver(item.position.offset)
        malformed = [item for item in batch if isinstance(item, MalformedInput)]
        self.isolated += await self.sources.isolate(0, [Isolation.of_malformed(item) for item in malformed])
        offers = [Offer(item, 0.0, False) for item in batch if isinstance(item, InputRecord)]
        claims = await self.claims.claim(0, offers)
        self.offered += [record.record_id for record, _ in claims.won]
        conflicts = [lost.record for lost in claims.not_won if lost.verdict is Verdict.CONFLICT]
        self.isolated += await self.sources.isolate(
            0, [Isolation.of_conflict(record) for record in conflicts]
        )
        done: list[SourceItem] = [
            *malformed,
            *(record for record, _ in claims.won),
            *(lost.record for lost in claims.not_won),
        ]
        for item in done:
            self.ledger.done(item.position.offset, self.ledger.epoch)

    async def commit(self) -> None:
        offset = self.ledger.committable()
        if offset is not None:
            await self.sources.commit(0, offset)

    async def whole(self, batches: int | None = None) -> None:
        """All of it, or so many batches."""
        reading = await self.begin()
        async for batch in reading:
            await self.take(batch)
            if batches is not None and (batches := batches - 1) == 0:
                break
        await reading.aclose()
        await self.commit()


def checkpoints(bench: Bench) -> dict[str, int]:
    return dict(
        bench.rows(
            "SELECT s.name, c.committed_offset FROM assay.source_checkpoints c "
            "JOIN assay.sources s USING (source_id)"
        )
    )


def lines(first: int, last: int) -> str:
    return "".join(f'{{"id": "{n}", "text": "ticket {n}"}}\n' for n in range(first, last))


def test_every_file_has_its_own_checkpoint_and_offsets(bench: Bench, tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_text(lines(0, 3) + "broken\n", "utf-8")
    two.write_text("broken\n" + lines(3, 5) + lines(0, 1) + '{"id": "1", "text": "other"}\n', "utf-8")
    with Station(bench, "a") as station:
        run = Run(station, [one, two])
        station.run(run.whole())
        assert run.offered == ["0", "1", "2", "3", "4"]
        assert run.isolated == 3
        assert checkpoints(bench) == {"one.jsonl": 4, "two.jsonl": 5}
        positions = bench.rows(
            "SELECT s.name, i.source_offset, i.source_line FROM assay.inputs i "
            "JOIN assay.sources s USING (source_id) ORDER BY i.record_id"
        )
        assert positions == [("one.jsonl", n, n + 1) for n in range(3)] + [
            ("two.jsonl", 1, 2), ("two.jsonl", 2, 3),
        ]  # fmt: skip
        isolated = bench.rows(
            "SELECT s.name, i.source_offset FROM assay.isolated_records i "
            "JOIN assay.sources s USING (source_id) ORDER BY 1, 2"
        )
        assert isolated == [("one.jsonl", 3), ("two.jsonl", 0), ("two.jsonl", 4)]
        duplicates = bench.rows("SELECT source_offset, record_id FROM assay.source_duplicates")
        assert ("3" not in dict(duplicates), (3, "0") in duplicates) == (True, True)
        again = Run(station, [one, two])
        station.run(again.whole())
        assert (again.offered, again.isolated, again.skipped) == ([], 0, 9)


def test_a_run_that_ends_in_the_second_file_goes_on_there(bench: Bench, tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_text(lines(0, 10), "utf-8")
    two.write_text(lines(1_000, 2_200), "utf-8")
    with Station(bench, "a") as station:
        run = Run(station, [one, two])
        station.run(run.whole(batches=2))
        assert checkpoints(bench) == {"one.jsonl": 10, "two.jsonl": 500}
        again = Run(station, [one, two])
        station.run(again.whole())
        assert again.skipped == 510
        assert again.offered == [str(n) for n in range(1_500, 2_200)]


def test_a_file_that_grew_stays_its_source(bench: Bench, tmp_path: Path) -> None:
    """Nothing is isolated a second time, and nothing that is done is offered again."""
    file = tmp_path / "in.jsonl"
    file.write_text(lines(0, 2) + "broken\n", "utf-8")
    with Station(bench, "a") as station:
        station.run(Run(station, [file]).whole())
        with file.open("a", encoding="utf-8") as stream:
            stream.write(lines(2, 4) + "broken too\n")
        grown = Run(station, [file])
        station.run(grown.whole())
        assert (grown.skipped, grown.offered, grown.isolated) == (3, ["2", "3"], 1)
        assert bench.one("SELECT count(*) FROM assay.sources WHERE name = 'in.jsonl'") == 1
        assert bench.one("SELECT count(*) FROM assay.isolated_records") == 2
        file.write_text("x" + file.read_text("utf-8")[1:] + lines(4, 5), "utf-8")
        other = Run(station, [file])
        station.run(other.whole())
        assert (other.skipped, other.offered, other.isolated) == (0, ["4"], 3)


def test_a_followed_file_is_known_before_its_lines_are_handed_over(bench: Bench, tmp_path: Path) -> None:
    """Whatever ends the run, the next one, followed or not, goes on where this one stopped."""
    file = tmp_path / "app.jsonl"
    file.write_text(lines(0, 2), "utf-8")

    def stored() -> Content:
        ((fingerprint, total, size),) = bench.rows(
            "SELECT fingerprint, total, size_bytes FROM assay.sources WHERE name = 'app.jsonl'"
        )
        return Content(fingerprint, total, size)

    async def follow(run: Run, batches: int) -> None:
        reading = await run.begin()
        for number in range(batches):
            await run.take(await anext(reading))
            raw = file.read_bytes()
            assert stored() == Content(hashlib.sha256(raw).hexdigest(), raw.count(b"\n"), len(raw))
            with file.open("a", encoding="utf-8") as stream:
                stream.write(lines(2 + number, 3 + number))
        await run.commit()
        await reading.aclose()

    with Station(bench, "a") as station:
        run = Run(station, [file], follow=True)
        station.run(follow(run, 3))
        assert run.offered == ["0", "1", "2", "3"]
        assert checkpoints(bench) == {"app.jsonl": 4}
        again = Run(station, [file])
        station.run(again.whole())
        assert (again.skipped, again.offered) == (4, ["4"])
        assert bench.one("SELECT count(*) FROM assay.sources WHERE name = 'app.jsonl'") == 1


def test_a_rotated_file_is_another_source_of_the_same_run(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "app.jsonl"
    file.write_text(lines(0, 2), "utf-8")

    async def follow(run: Run) -> None:
        reading = await run.begin()
        await run.take(await anext(reading))
        file.rename(tmp_path / "app.jsonl.1")
        file.write_text(lines(7, 8), "utf-8")
        await run.take(await anext(reading))
        await run.commit()
        await reading.aclose()

    with Station(bench, "a") as station:
        run = Run(station, [file], follow=True)
        station.run(follow(run))
        assert run.offered == ["0", "1", "7"]
        rows = bench.rows(
            "SELECT s.name, c.committed_offset FROM assay.source_checkpoints c "
            "JOIN assay.sources s USING (source_id) ORDER BY source_id"
        )
        assert rows == [("app.jsonl", 2), ("app.jsonl", 1)]


def test_two_runs_cannot_follow_one_file(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "app.jsonl"
    file.write_text(lines(0, 1), "utf-8")

    async def both(one: Run, other: Run) -> None:
        reading, behind = await one.begin(), await other.begin()
        await one.take(await anext(reading))
        await other.take(await anext(behind))
        with file.open("a", encoding="utf-8") as stream:
            stream.write(lines(1, 3))
        await one.take(await anext(reading))
        try:
            await anext(behind)
        finally:
            await reading.aclose()
            await behind.aclose()

    with Station(bench, "a") as station:
        one, other = Run(station, [file], follow=True), Run(station, [file], follow=True)
        with pytest.raises(AssayError, match="followed by another run as well"):
            station.run(both(one, other))


def test_contents_race_to_one_source(bench: Bench) -> None:
    """Who looks at the same moment gets the same source, new or grown."""
    with Station(bench, "a") as one, Station(bench, "b") as other:

        async def register(station: Station, content: Content) -> int:
            async def starts_with(earlier: Content) -> bool:
                return earlier.size == 10

            return await ContentStore(station.pool).register(
                kind="file", name="n", mapping="{}", content=content, starts_with=starts_with
            )

        first = Content("a" * 64, 1, 10)
        started = [station.start(register(station, first)) for station in (one, other)]
        assert len({future.result(30) for future in started}) == 1
        grown = Content("b" * 64, 2, 20)
        started = [station.start(register(station, grown)) for station in (one, other)]
        assert len({future.result(30) for future in started}) == 1
        assert bench.one("SELECT count(*) FROM assay.sources WHERE name = 'n'") == 1
        alike = Content("b" * 64, 2, 20)
        assert one.run(register(one, first)) != one.run(register(one, alike))
