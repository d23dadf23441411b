"""Who is no member of the vault's role sees states and ledgers, and no sealed byte."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

VAULT_TABLES = ("texts", "labels", "raws", "subject_keys")


@pytest.fixture
def analyst(db_url: str) -> Iterator[str]:
    """A role of this test's own that may read all of the schema `assay`."""
    name = f"analyst_{secrets.token_hex(6)}"
    role = sql.Identifier(name)
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(role))
        connection.execute(sql.SQL("GRANT USAGE ON SCHEMA assay TO {}").format(role))
        connection.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA assay TO {}").format(role))
        yield name
        connection.execute(sql.SQL("DROP OWNED BY {}").format(role))
        connection.execute(sql.SQL("DROP ROLE {}").format(role))


def _reads(url: str, role: str, table: sql.Identifier) -> bool:
    with psycopg.connect(url) as connection:
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
        try:
            connection.execute(sql.SQL("SELECT count(*) FROM {}").format(table))
        except psycopg.errors.InsufficientPrivilege:
            return False
        return True


def test_the_vault_is_closed_to_all_but_its_role(db_url: str, analyst: str) -> None:
    assert _reads(db_url, analyst, sql.Identifier("assay", "annotation_tasks"))
    for table in VAULT_TABLES:
        assert not _reads(db_url, analyst, sql.Identifier("assay_vault", table))
        assert _reads(db_url, "assay_vault", sql.Identifier("assay_vault", table))
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute(sql.SQL("GRANT assay_vault TO {}").format(sql.Identifier(analyst)))
    assert _reads(db_url, analyst, sql.Identifier("assay_vault", "texts"))


def test_the_vaults_role_reads_nothing_else(db_url: str) -> None:
    assert not _reads(db_url, "assay_vault", sql.Identifier("assay", "annotation_tasks"))
