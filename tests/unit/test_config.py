"""Settings: which project, which database."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.config import load_settings
from assay.domain.failures import ConfigurationError


def test_the_project_is_the_nearest_folder_with_state(tmp_path: Path) -> None:
    (tmp_path / ".assay").mkdir()
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert load_settings({}, deep).project == tmp_path
    (tmp_path / "a" / ".assay").mkdir()
    assert load_settings({}, deep).project == tmp_path / "a"


def test_without_state_the_project_is_the_working_folder(tmp_path: Path) -> None:
    settings = load_settings({}, tmp_path)
    assert settings.project == tmp_path.resolve()
    assert settings.database_url is None
    assert settings.vault_key_file == tmp_path.resolve() / ".assay" / "vault.key"


def test_a_named_project_must_exist(tmp_path: Path) -> None:
    assert load_settings({"ASSAY_PROJECT": str(tmp_path)}).project == tmp_path.resolve()
    with pytest.raises(ConfigurationError, match="ASSAY_PROJECT"):
        load_settings({"ASSAY_PROJECT": str(tmp_path / "none")})


@pytest.mark.parametrize("url", ["mysql://x/y", "host=localhost", "postgres:/x"])
def test_another_database_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="ASSAY_DATABASE_URL"):
        load_settings({"ASSAY_DATABASE_URL": url}, tmp_path)


@pytest.mark.parametrize("url", ["postgresql://a@b/c", "postgres://a@b/c"])
def test_both_spellings_of_the_scheme_are_taken(url: str, tmp_path: Path) -> None:
    assert load_settings({"ASSAY_DATABASE_URL": url}, tmp_path).database_url == url
