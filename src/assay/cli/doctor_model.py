"""What `assay doctor` finds about a pipeline, its model and the vendor."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from yarl import URL

from assay.adapters.providers.loopback import ONLY_LOOPBACK, is_loopback, only_loopback
from assay.adapters.providers.recorded import parse_recorded
from assay.cli.chosen import load
from assay.cli.doctor_vendor import Probe, probe
from assay.cli.finding import Finding, State, doubt, fault, findings, fine
from assay.cli.run_command import build_model
from assay.config import Settings
from assay.domain.boundary import judge
from assay.domain.contract_schema import contract_schema
from assay.domain.definition import Pipeline
from assay.domain.failures import ProviderError
from assay.domain.prompt import messages
from assay.domain.rejection import Rejected
from assay.ports import ModelPort, ModelRequest, ModelResponse

_KEYS: Final = ("ASSAY_MODEL_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")
_BASES: Final = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
_TEXT: Final = "This is a test of the connection."
_NO_LIST: Final = (
    "No list of models is there: the base URL's path may be wrong (most end in /v1); try --call."
)
_AT_LIMIT: Final = "The account is at its limit just now; a run waits by itself."


@dataclass(frozen=True, slots=True)
class _Look:
    """A pipeline, the folder of its file, and where its model's API is."""

    pipeline: Pipeline
    folder: Path
    base_url: str | None
    settings: Settings

    @property
    def kind(self) -> str:
        return self.pipeline.model.partition(":")[0]

    @property
    def address(self) -> str | None:
        named = (
            self.base_url or self.pipeline.base_url or self.settings.environment.get("ASSAY_MODEL_BASE_URL")
        )
        return named or _BASES.get(self.kind)

    def model(self) -> ModelPort:
        return build_model(self.pipeline, self.folder, self.base_url, self.settings)


def pipeline_findings(
    spec: str, model: str | None, base_url: str | None, settings: Settings, *, call: bool
) -> list[Finding]:
    """The file, the key, and whether the vendor answers; with `call` one real call."""
    loaded: list[Pipeline] = []
    found = findings("pipeline", lambda: _load(spec, model, loaded))
    if not loaded:
        return found
    look = _Look(loaded[0], Path(spec.partition(":")[0]).resolve().parent, base_url, settings)
    if look.kind == "recorded":
        return found + findings("recorded answers", lambda: _recorded(look))
    found += findings("model key", lambda: _key(look))
    found += findings("loopback guard", lambda: _guard(look))
    if all(each.state is not State.FAIL for each in found):
        found += findings("vendor", lambda: _vendor(look))
        if call:
            found += findings("model call", lambda: _call(look))
    return found


def _load(spec: str, model: str | None, loaded: list[Pipeline]) -> Iterator[Finding]:
    pipeline = load(spec, model)
    loaded.append(pipeline)
    yield fine("pipeline", f"{pipeline.name} version {pipeline.version[:12]}, model {pipeline.model}")


def _recorded(look: _Look) -> Iterator[Finding]:
    spec = parse_recorded(look.pipeline.model.partition(":")[2])
    path = look.folder / spec.file
    if not path.is_file():
        yield fault("recorded answers", f"there is no file {path}", "Bring it back, or correct the model.")
    else:
        yield fine("recorded answers", f"{path}, column {spec.column}")
    if look.base_url is not None:
        yield doubt(
            "base URL", "--base-url is without effect: a recorded model calls nobody", "Leave it out."
        )


def _key(look: _Look) -> Iterator[Finding]:
    """Making the adapter says what is missing. Keys are named by their variable, never shown."""
    asyncio.run(_made_and_closed(look))
    there = [name for name in _KEYS if look.settings.environment.get(name)]
    yield fine(
        "model key", f"set: {', '.join(there)}" if there else "none is set; a server of your own needs none"
    )


async def _made_and_closed(look: _Look) -> None:
    await look.model().aclose()


def _guard(look: _Look) -> Iterator[Finding]:
    if not only_loopback():
        return
    if look.address is not None and not is_loopback(URL(look.address)):
        yield fault(
            "loopback guard", f"{ONLY_LOOPBACK} keeps calls on this machine", "Unset it to call a vendor."
        )
    else:
        yield fine("loopback guard", f"{ONLY_LOOPBACK} is set; the model is on this machine")


def _vendor(look: _Look) -> Iterator[Finding]:
    if look.address is None or look.kind not in _BASES:
        yield doubt("vendor", f"no unbilled request is known for {look.kind}", "Try one call with --call.")
        return
    reply = asyncio.run(probe(look.kind, look.address, look.settings.environment))
    yield _read(reply, look.pipeline.model.partition(":")[2])


def _read(reply: Probe, model: str) -> Finding:
    """What a reply to a list of models says. Refusals are the key's, everything else is the vendor's."""
    where = f"{reply.url.host}:{reply.url.port}"
    if reply.failure is not None:
        return fault("vendor", f"{where}: {reply.failure}", "Check the base URL, DNS, proxy and firewall.")
    told = f"{where} answers in {reply.seconds * 1000:.0f} ms (HTTP {reply.status} to {reply.url.path})"
    match reply.status:
        case 401 | 403:
            return fault("vendor", told, "The key was refused: set another one.")
        case 404 | 429 as status:
            return doubt("vendor", told, _NO_LIST if status == 404 else _AT_LIMIT)
        case status if status is not None and status >= 500:
            return doubt("vendor", told, "The vendor has trouble; a run waits by itself.")
        case 200 if reply.models and model not in reply.models:
            return doubt(
                "vendor", f"{told}, and does not list {model}", "Check the model's name; try --call."
            )
        case _:
            return fine("vendor", told)


def _call(look: _Look) -> Iterator[Finding]:
    answer = asyncio.run(_answer(look))
    if isinstance(answer, ProviderError):
        yield fault(
            "model call", str(answer), "See the code; 401 and 403: the key, 404: base URL or model name."
        )
        return
    verdict = judge(look.pipeline.contract, answer.content, text=_TEXT, truncated=answer.truncated)
    cost = "unknown" if answer.cost is None else f"{answer.cost:.6f}"
    told = f"answered in {answer.latency_ms:.0f} ms by {answer.model or look.pipeline.model}, cost {cost}"
    if isinstance(verdict, Rejected):
        yield doubt(
            "model call", f"{told}; the answer breaks the contract: {verdict.code.value}",
            "One answer says little; label a few records with --limit and look at the codes.",
        )  # fmt: skip
    else:
        yield fine("model call", f"{told}; the answer fits the contract")


async def _answer(look: _Look) -> ModelResponse | ProviderError:
    pipeline = look.pipeline
    request = ModelRequest(
        record_id="doctor", input_version=1, messages=messages(pipeline.prompt, _TEXT),
        json_schema=contract_schema(pipeline.contract) if pipeline.structured_output else None,
        schema_name=pipeline.contract.__name__, parameters=pipeline.parameters,
        idempotency_key="assay-doctor",
    )  # fmt: skip
    model = look.model()
    try:
        async with asyncio.timeout(pipeline.call_timeout_seconds):
            return await model.complete(request)
    except ProviderError as failure:
        return failure
    finally:
        await model.aclose()
