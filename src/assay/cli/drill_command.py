"""What `assay drill` does once its options are read."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from assay.cli.errors import BROKEN, OK
from assay.cli.said import complain, say
from assay.domain.failures import ConfigurationError
from assay.drill.evidence import Evidence
from assay.drill.ledgers import ledgers_of
from assay.drill.verdict import what_broke


@dataclass(frozen=True, slots=True)
class DrillOptions:
    """The options of `assay drill`, read."""

    tickets: int
    speed: float
    seed: int
    keep: bool = False
    recount: Path | None = None
    as_json: bool = False
    quiet: bool = False


def execute(options: DrillOptions) -> int:
    """Drill, or count a kept drill again; the exit code."""
    _check_extras()
    tell: Callable[[str], None] = (lambda _: None) if options.quiet else say
    if options.recount is not None:
        return _judged(options, _recounted(options.recount), [], options.recount)
    started = time.monotonic()
    found, odd, folder = _drilled(options, tell)
    tell(f"The drill took {time.monotonic() - started:.0f} seconds.")
    return _judged(options, found, odd, folder if options.keep else None)


def _check_extras() -> None:
    if find_spec("confluent_kafka") is None:
        raise ConfigurationError("The drill needs packages: pip install 'assay[kafka,embedded]'.")


def _drilled(options: DrillOptions, tell: Callable[[str], None]) -> tuple[Evidence, list[str], Path]:
    from assay.cli.drill_cast import Cast
    from assay.cli.drill_evidence import collect
    from assay.cli.drill_play import Play
    from assay.cli.drill_stage import environment_of, set_up, throw_away

    with throw_away(tell if options.keep else None) as folder:
        tell("A database, a broker and a practice vendor start, for this drill alone.")
        cast = Cast(folder, environment_of(folder), tell)
        try:
            with set_up(folder, cast, options.tickets, options.seed) as stage:
                odd = Play(stage, cast, options.speed, tell).run()
                tell("Everything has ended; counting.")
                return collect(folder, stage.url), odd, folder
        finally:
            cast.kill()


def _recounted(folder: Path) -> Evidence:
    from assay.app import database
    from assay.cli.drill_evidence import collect
    from assay.cli.drill_stage import PRODUCED, settings_of

    if not (folder / PRODUCED).is_file():
        raise ConfigurationError(f"{folder} is no kept drill: `assay drill --keep` says where it leaves one.")
    with database(settings_of(folder.resolve())) as url:
        return collect(folder, url)


def _judged(options: DrillOptions, found: Evidence, odd: list[str], kept: Path | None) -> int:
    from assay.cli.drill_page import show, show_object

    broken = [*what_broke(found), *(f"{name} did not end well" for name in odd)]
    ledgers = ledgers_of(found, broken)
    if options.as_json:
        show_object(ledgers, kept)
    else:
        show(ledgers)
    for sentence in broken:
        complain(f"{sentence}.", BROKEN)
    return BROKEN if broken else OK
