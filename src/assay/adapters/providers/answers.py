"""What a reader of a wire hands back: the answer, or a typed error that keeps what the reply did say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from assay.adapters.providers.rate_limit_headers import read_rate_limits
from assay.adapters.providers.transport import MAX_PARTIAL_BYTES, HttpReply
from assay.domain.failures import PolicyProviderError, ProviderError, Spent, TransientProviderError
from assay.ports import Usage


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens as the vendor counted them; None where it did not say.

    `input` includes what was read from a cache (`cached`) or written to one (`cache_write`, of which
    `long_cache_write` for an hour), `output` what was thought (`reasoning`).
    """

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    cache_write: int | None = None
    long_cache_write: int | None = None

    @property
    def usage(self) -> Usage:
        return Usage(self.input, self.output, self.cached, self.reasoning)


NO_TOKENS: Final = Tokens()


@dataclass(frozen=True, slots=True)
class Answer:
    """`content` is the answer's text, exactly as the vendor gave it; the rest may be missing (None)."""

    content: str = field(repr=False)
    finish_reason: str | None = None
    tokens: Tokens = NO_TOKENS
    model: str | None = None
    reply_id: str | None = None
    truncated: bool = False

    @property
    def usage(self) -> Usage:
        return self.tokens.usage


@dataclass(frozen=True, slots=True)
class Said:
    """What a reply says beside its text; it outlives a refusal."""

    tokens: Tokens = NO_TOKENS
    model: str | None = None
    finish_reason: str | None = None
    reply_id: str | None = None

    @property
    def spent(self) -> Spent:
        tokens = self.tokens
        return Spent(
            input_tokens=tokens.input,
            output_tokens=tokens.output,
            cached_tokens=tokens.cached,
            reasoning_tokens=tokens.reasoning,
            cache_write_tokens=tokens.cache_write,
            model=self.model,
            finish_reason=self.finish_reason,
        )

    def answer(self, content: str, *, truncated: bool) -> Answer:
        return Answer(content, self.finish_reason, self.tokens, self.model, self.reply_id, truncated)


NOTHING_SAID: Final = Said()


def bad_reply(reply: HttpReply, said: Said = NOTHING_SAID) -> ProviderError:
    """A reply that is no answer of this wire; assumed paid."""
    return broken("provider_bad_reply", reply, said)


def broken(code: str, reply: HttpReply, said: Said = NOTHING_SAID) -> ProviderError:
    """A success status under which the vendor failed; assumed paid."""
    return TransientProviderError(
        code,
        status=reply.status,
        request_id=reply.request_id or said.reply_id,
        partial=reply.body[:MAX_PARTIAL_BYTES],
        rate_limits=read_rate_limits(reply.headers),
        spent=said.spent,
    )


def refused(reply: HttpReply, said: Said) -> ProviderError:
    """The vendor refuses this content, in a reply that is paid like an answer."""
    return PolicyProviderError(
        "provider_refused",
        status=reply.status,
        request_id=reply.request_id or said.reply_id,
        partial=reply.body[:MAX_PARTIAL_BYTES],
        rate_limits=read_rate_limits(reply.headers),
        spent=said.spent,
    )
