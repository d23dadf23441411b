"""From an error to one clear sentence and an exit code."""

from __future__ import annotations

from typing import Final

# Exit codes, the same for every command (`docs/cli.md`).
OK: Final = 0
BROKEN: Final = 1
BAD_INPUT: Final = 2
STOPPED: Final = 3
INTERRUPTED: Final = 130
READER_GONE: Final = 141


def sentence(error: BaseException) -> str | None:
    """What to tell a person about an error of the outside world; None for a defect of ours.

    Database errors are told by SQLSTATE and constraint only: their details may quote a row.
    """
    import psycopg

    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return (
            "PostgreSQL cannot be reached, or refused the login; check that it runs and that "
            "ASSAY_DATABASE_URL has the right host, port, user, password and database (unset it to use the "
            "embedded one)."
        )
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        # Raised while the URL is read, before any statement; its own text may quote the password.
        return (
            "ASSAY_DATABASE_URL cannot be read; write it as postgresql://user:password@host:5432/name, with "
            "special characters percent-encoded (% as %25)."
        )
    if isinstance(error, psycopg.Error):
        constraint = error.diag.constraint_name
        place = f", constraint {constraint}" if constraint else ""
        return (
            f"PostgreSQL refused a statement (SQLSTATE {error.sqlstate}, {type(error).__name__}{place}); "
            "nothing of that transaction was kept."
        )
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'A file'}: {error.strerror}."
    return None
