"""Changes of settings and timelines of the practice vendor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.vendor.changes import CHANGEABLE, FAULTS, changed, changes_shown, settings_shown
from assay.vendor.gold import Json
from assay.vendor.limits import account_of
from assay.vendor.settings import FaultShares, VendorConfig, VendorSettingsError
from assay.vendor.timeline import Step, read_timeline

CONFIG = VendorConfig(Path("g.jsonl"), faults=FaultShares(prose_prefix=0.5))


def test_changes_by_name() -> None:
    after = changed(CONFIG, {"latency": 1, "html": 0.25, "price": "1,2", "down": "closing", "model": None})
    assert (after.latency, after.faults.html, after.faults.prose_prefix) == (1.0, 0.25, 0.5)
    assert str(after.price) == "1,2,1"
    assert settings_shown(after).keys() == CHANGEABLE.keys() | FAULTS
    assert changed(CONFIG, settings_shown(after)) == after


def test_keys_are_not_shown() -> None:
    assert changes_shown({"api_key": "secret", "html": 0.1}) == {"api_key": account_of("secret"), "html": 0.1}
    assert "secret" not in str(settings_shown(changed(CONFIG, {"api_key": "secret"})))


@pytest.mark.parametrize(
    "change",
    [
        {"html": 0.6},  # with the prose before more than 1
        {"html": "much"},
        {"html": True},
        {"gold": "other.jsonl"},
        {"drawn": []},
        {"latency": None},
        {"limit_requests": 1.5},
        {"limit_requests": 0},
        {"hide_limits": 1},
        {"down": "yes"},
        {"price": 5},
        {"model": ""},
    ],
)
def test_what_cannot_change(change: dict[str, Json]) -> None:
    with pytest.raises(VendorSettingsError):
        changed(CONFIG, change)


def test_steps_are_read_in_their_order_from_json_and_toml(tmp_path: Path) -> None:
    steps = [{"at": 9, "html": 1.0, "until": 10, "note": "lunch"}, {"at": 0, "prose_prefix": 0.0}]
    listed, table = tmp_path / "t.json", tmp_path / "t.toml"
    listed.write_text(json.dumps(steps), encoding="utf-8")
    table.write_text(
        'from = "start"\n[[steps]]\nat = 9\nuntil = 10\nhtml = 1.0\n[[steps]]\nat = 0\nprose_prefix = 0.0\n',
        encoding="utf-8",
    )
    expected = (Step(0.0, None, {"prose_prefix": 0.0}), Step(9.0, 10.0, {"html": 1.0}))
    assert read_timeline(listed, CONFIG).steps == expected
    assert read_timeline(table, CONFIG).steps == expected
    assert (read_timeline(listed, CONFIG).zero, read_timeline(table, CONFIG).zero) == ("first-call", "start")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "well-formed"),
        ("[]", "no steps"),
        ('{"steps": [{"at": 1, "html": 0.1}], "to": 1}', "to is neither"),
        ('{"steps": [{"at": 1, "html": 0.1}], "from": "noon"}', "first-call or start"),
        ("[5]", "step 1"),
        ('[{"html": 0.1}]', "at is a number"),
        ('[{"at": -1, "html": 0.1}]', "at is a number"),
        ('[{"at": 2, "until": 2, "html": 0.1}]', "ends before"),
        ('[{"at": 2, "note": "x"}]', "changes nothing"),
        ('[{"at": 2, "html": 0.1}, {"at": 5, "drip": 0.6, "note": "too much"}]', "at 5 seconds"),
        ('[{"at": 2, "port": 8000}]', "port is no setting"),
    ],
)
def test_timelines_that_do_not_fit_are_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(VendorSettingsError, match="timeline") as caught:
        read_timeline(path, CONFIG)
    assert says in str(caught.value)


def test_a_timeline_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(VendorSettingsError, match="cannot be read"):
        read_timeline(tmp_path / "nowhere.json", CONFIG)
