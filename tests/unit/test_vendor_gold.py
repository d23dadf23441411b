"""Settings and gold files of the practice vendor."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from assay.vendor.gold import read_gold
from assay.vendor.settings import ORDINARY_DAY, FaultShares, VendorConfig, VendorSettingsError, split_gold


def test_jsonl_with_columns_found_by_name(tmp_path: Path) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text('{"text": "a", "label": "x"}\n\n{"text": "b\u2028c", "label": "y"}\n', encoding="utf-8")
    gold = read_gold(path)
    assert gold.answers == {"a": "x", "b\u2028c": "y"}
    assert gold.labels == ("x", "y")


def test_csv_with_named_columns_long_fields_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    long = "z" * 300_000
    path.write_text(f'title,kind\n"two\nlines",shoes\n{long},hats\n', encoding="utf-8-sig")
    gold = read_gold(path, "kind", "title")
    assert gold.answers == {"two\nlines": "shoes", long: "hats"}


def test_labels_that_are_objects(tmp_path: Path) -> None:
    jsonl, csv = tmp_path / "gold.jsonl", tmp_path / "gold.csv"
    jsonl.write_text('{"text": "a", "gold": {"total": "1.00"}}\n', encoding="utf-8")
    csv.write_text('text,gold\na,"{""total"": ""1.00""}"\n', encoding="utf-8")
    for path in (jsonl, csv):
        gold = read_gold(path)
        assert gold.answers == {"a": {"total": "1.00"}}
        assert gold.labels == ()


def test_the_first_answer_of_a_repeated_text_holds(tmp_path: Path) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text('{"text": "a", "label": "x"}\n{"text": "a", "label": "y"}\n', encoding="utf-8")
    gold = read_gold(path)
    assert gold.answers == {"a": "x"}
    assert gold.repeated == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "no rows"),
        ("[1]\n", "line 1"),
        ('{"text": "a", "label": "x"}\nnot json\n', "line 2"),
        ('{"text": "secret", "label": 1.5}\n', "line 1"),
        ('{"text": 5, "label": "x"}\n', "holds no text"),
        ('{"words": "secret", "label": "x"}\n', "--text"),
        ('{"text": "secret", "kind": "x"}\n', "#LABEL_COLUMN"),
    ],
)
def test_what_does_not_fit_is_named_without_its_content(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(VendorSettingsError) as caught:
        read_gold(path)
    assert says in str(caught.value)
    assert "secret" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(VendorSettingsError, match="cannot be read"):
        read_gold(tmp_path / "nowhere.jsonl")
    (tmp_path / "gold.jsonl").write_bytes(b'{"text": "\xff"}\n')
    with pytest.raises(VendorSettingsError, match="UTF-8"):
        read_gold(tmp_path / "gold.jsonl")


def test_gold_argument(tmp_path: Path) -> None:
    assert split_gold("a/b.csv#kind") == (Path("a/b.csv"), "kind")
    assert split_gold("a/b.csv") == (Path("a/b.csv"), None)
    odd = tmp_path / "odd#name.jsonl"
    odd.write_text(json.dumps({"text": "a", "label": "x"}), encoding="utf-8")
    assert split_gold(str(odd)) == (odd, None)
    with pytest.raises(VendorSettingsError):
        split_gold("file.csv#")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.com", ""])
def test_only_this_machine_is_served(host: str) -> None:
    with pytest.raises(VendorSettingsError, match="this machine"):
        VendorConfig(gold=Path("g.jsonl"), host=host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.5", "localhost", "::1"])
def test_loopback_addresses_are_allowed(host: str) -> None:
    assert VendorConfig(gold=Path("g.jsonl"), host=host).host == host


def test_shares_are_checked() -> None:
    assert 0.0 < ORDINARY_DAY.total < 0.2
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(VendorSettingsError):
            FaultShares(truncation=wrong)
        with pytest.raises(VendorSettingsError):
            VendorConfig(gold=Path("g.jsonl"), error_rate=wrong)
    with pytest.raises(VendorSettingsError, match="add up"):
        FaultShares(rate_limited=0.6, server_error=0.6)


@pytest.mark.parametrize(
    "build",
    [
        partial(VendorConfig, Path("g.jsonl"), latency=-1.0),
        partial(VendorConfig, Path("g.jsonl"), latency_spread=1.5),
        partial(VendorConfig, Path("g.jsonl"), retry_after=-1),
        partial(VendorConfig, Path("g.jsonl"), port=70_000),
        partial(VendorConfig, Path("g.jsonl"), label_field="confidence"),
        partial(VendorConfig, Path("g.jsonl"), answer_fields=()),
        partial(VendorConfig, Path("g.jsonl"), remembered_keys=1),
    ],
)
def test_settings_that_cannot_be(build: Callable[[], VendorConfig]) -> None:
    with pytest.raises(VendorSettingsError):
        build()
