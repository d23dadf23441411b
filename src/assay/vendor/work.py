"""What the vendor does for a request: find the text, draw, answer. No waiting, no sockets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from assay.vendor.answers import Answers
from assay.vendor.chance import Draws, digest
from assay.vendor.faults import AT_THE_DOOR, WITHOUT_WORK, Said, draw_fault, say
from assay.vendor.gold import read_gold
from assay.vendor.latency import seconds
from assay.vendor.lookup import How, TextIndex
from assay.vendor.schema import allowed_labels, shape
from assay.vendor.seen_keys import SeenKeys
from assay.vendor.settings import VendorConfig
from assay.vendor.wire import Asked, cut_to_tokens, tokens_of

_UNKNOWN_TEXTS_REMEMBERED: Final = 100_000


@dataclass(slots=True)
class Done:
    """What a call meets. `said` is None where the fault comes in place of an answer.

    `cost_in_tokens` is what a limit of tokens counts: prompt and answer, the prompt alone without an answer.
    """

    subject: bytes
    found: How
    turn: int
    counted_as: bytes
    fault: str | None
    pause: float
    draws: Draws
    prompt_tokens: int
    said: Said | None = None
    wrong: bool = False
    cached_tokens: int = 0
    completion_tokens: int = 0

    @property
    def cost_in_tokens(self) -> int:
        """Tokens that a limit counts."""
        return self.prompt_tokens + self.completion_tokens


class Work:
    """Gold, answers and the number of calls about each text."""

    def __init__(self, config: VendorConfig) -> None:
        """Read the gold file; raises VendorSettingsError."""
        gold = read_gold(config.gold, config.label_column, config.text_column)
        self._index = TextIndex(gold.answers)
        self._answers = Answers(gold, config.seed, config.error_rate)
        self._turns = SeenKeys(2 * (len(gold.answers) + _UNKNOWN_TEXTS_REMEMBERED))

    def do(self, asked: Asked, config: VendorConfig) -> Done:
        """Draw the call's fault, latency and answer. The call uses up its turn only if it is `counted`."""
        match = self._index.find(asked.message)
        subject = digest(match.text)
        counted_as = subject + asked.model.encode("utf-8", "surrogatepass")
        turn = self._turns.count(counted_as)
        draws = Draws(config.seed, subject, f"call|{asked.model}", turn)
        fault = draw_fault(config.faults, draws)
        unit = draws.unit()
        if fault in WITHOUT_WORK:
            pause = 0.0 if fault in AT_THE_DOOR else seconds(config, unit, 0)
            return Done(subject, match.how, turn, counted_as, fault, pause, draws, asked.prompt_tokens)
        self._answers.error_rate = config.error_rate
        labels = allowed_labels(asked.schema, config.label_field)
        answer = self._answers.about(match, subject, asked.model, labels)
        shaped = shape(answer, config.label_field, asked.schema, config.answer_fields)
        said = _within_limit(say(shaped, fault, draws, match.text), asked.max_tokens)
        completion = 0 if said.fault == "empty_choices" else tokens_of(said.content)
        return Done(
            subject,
            match.how,
            turn,
            counted_as,
            said.fault,
            seconds(config, unit, completion),
            draws,
            asked.prompt_tokens,
            said,
            answer.wrong,
            int(asked.prompt_tokens * config.cached_share),
            completion,
        )

    def count(self, done: Done) -> None:
        """The call happened: the next one about the text draws anew."""
        self._turns.add(done.counted_as)


def _within_limit(said: Said, limit: int | None) -> Said:
    if limit is None or said.finish_reason == "refusal" or tokens_of(said.content) <= limit:
        return said
    return Said(cut_to_tokens(said.content, limit), "length", said.fault)
