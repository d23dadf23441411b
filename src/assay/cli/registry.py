"""Which commands there are. Their modules are light; each command imports what it needs when it runs."""

from __future__ import annotations

import inspect

import typer

from assay.cli.audit import audit
from assay.cli.budget import budget_app
from assay.cli.check import check
from assay.cli.completion import completion
from assay.cli.db import db_app
from assay.cli.demo import demo
from assay.cli.dlq import dlq_app
from assay.cli.doctor import doctor
from assay.cli.down import down
from assay.cli.drill import drill
from assay.cli.evaluate import evaluate
from assay.cli.explain import explain
from assay.cli.fix import fix_app
from assay.cli.init import init
from assay.cli.isolated import isolated_app
from assay.cli.key import key_app
from assay.cli.lag import lag
from assay.cli.migrate import migrate
from assay.cli.pipeline import pipeline_app
from assay.cli.publish import publish
from assay.cli.replay import replay_app
from assay.cli.results import results
from assay.cli.run import run
from assay.cli.status import StatusCommand, status
from assay.cli.topic import topic_app
from assay.cli.up import up
from assay.cli.vendor import vendor
from assay.cli.work import work


def register(app: typer.Typer) -> None:
    """Add every command, in the order in which a newcomer meets them."""
    app.command()(demo)
    app.command()(drill)
    app.command()(init)
    app.command()(doctor)
    app.command()(run)
    app.command()(up)
    app.command()(down)
    app.add_typer(topic_app, name="topic")
    app.command()(publish)
    app.command()(work)
    app.command(cls=StatusCommand)(status)
    app.command(cls=StatusCommand)(lag)
    app.command()(results)
    app.command()(explain)
    app.command("eval")(evaluate)
    app.command()(audit)
    app.command()(check)
    app.add_typer(pipeline_app, name="pipeline")
    app.add_typer(isolated_app, name="isolated")
    app.add_typer(dlq_app, name="dlq")
    app.add_typer(fix_app, name="fix")
    app.add_typer(replay_app, name="replay")
    app.add_typer(budget_app, name="budget")
    app.command()(migrate)
    app.add_typer(db_app, name="db")
    app.add_typer(key_app, name="key")
    app.command()(completion)
    app.command()(vendor)
    _unwrap_help(app)


def _unwrap_help(app: typer.Typer) -> None:
    """Docstrings are wrapped for readers of the source; a terminal wraps their paragraphs for itself."""
    for command in app.registered_commands:
        written = command.help or inspect.getdoc(command.callback) or ""
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in written.split("\n\n"))
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _unwrap_help(group.typer_instance)
