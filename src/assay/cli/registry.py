"""Which commands there are. Their modules are light; each command imports what it needs when it runs."""

from __future__ import annotations

import typer

from assay.cli.audit import audit
from assay.cli.budget import budget_app
from assay.cli.check import check
from assay.cli.completion import completion
from assay.cli.db import db_app
from assay.cli.demo import demo
from assay.cli.doctor import doctor
from assay.cli.evaluate import evaluate
from assay.cli.explain import explain
from assay.cli.init import init
from assay.cli.key import key_app
from assay.cli.migrate import migrate
from assay.cli.pipeline import pipeline_app
from assay.cli.results import results
from assay.cli.run import run
from assay.cli.status import status
from assay.cli.vendor import vendor


def register(app: typer.Typer) -> None:
    """Add every command, in the order in which a newcomer meets them."""
    app.command()(demo)
    app.command()(init)
    app.command()(doctor)
    app.command()(run)
    app.command()(status)
    app.command()(results)
    app.command()(explain)
    app.command("eval")(evaluate)
    app.command()(audit)
    app.command()(check)
    app.add_typer(pipeline_app, name="pipeline")
    app.add_typer(budget_app, name="budget")
    app.command()(migrate)
    app.add_typer(db_app, name="db")
    app.add_typer(key_app, name="key")
    app.command()(completion)
    app.command()(vendor)
