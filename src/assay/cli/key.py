"""`assay key`: the vault's key-encryption key: which, whether it fits, and another one in its place."""

from __future__ import annotations

from typing import Annotated

import typer

key_app = typer.Typer(help="The vault's key: show, check, rotate, retire.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print it as one JSON object.")]


@key_app.command("show")
def key_show(as_json: AsJson = False) -> None:
    """List the vault keys by id, and how much each of them wraps. Key material is never shown."""
    from assay.cli.key_page import show

    show(as_json)


@key_app.command("check")
def key_check(as_json: AsJson = False) -> None:
    """Try whether the keys that are given open what this database holds. Exit code 1 where they do not."""
    from assay.cli.key_page import check

    if not check(as_json):
        raise typer.Exit(1)


@key_app.command("rotate")
def key_rotate(
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Only put the new key into the key file, beside the old one.")
    ] = False,
    retire: Annotated[
        bool, typer.Option("--retire", help="Drop the old key at the end, as `assay key retire` does.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Wrap every key anew under another vault key. Workers may run meanwhile; ciphertexts are not touched.

    The new key is made here and written into the key file beside the old one. Where several machines, or
    ASSAY_VAULT_KEY, hold the key: put "OLD,NEW" everywhere first (`--prepare` makes NEW in a file), then
    rotate on one of them. May be interrupted, or killed, at any moment; started again, it goes on.
    """
    from assay.cli.key_change import rotate

    if not rotate(prepare=prepare, retire=retire, quiet=quiet):
        raise typer.Exit(1)


@key_app.command("retire")
def key_retire(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Drop old keys after a rotation, once it is proven that they wrap nothing.

    Backups of the database from before the rotation need the old key: keep a copy as long as you keep them.
    """
    from assay.cli.key_change import retire

    if not retire(quiet=quiet):
        raise typer.Exit(1)
