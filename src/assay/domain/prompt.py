"""What the model is asked: a fixed system text and a user text with one slot for the record."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from assay.domain.failures import ConfigurationError

SLOT: Final = "{text}"
_SPLIT: Final = re.compile(r"^---[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Prompt:
    """`system` is sent as it is; `user` holds `{text}` exactly once, and only the record's text goes there.

    No other brace means anything. Raises `ConfigurationError` when the slot is missing, repeated or in the
    system text.
    """

    system: str
    user: str = field(default=SLOT)

    def __post_init__(self) -> None:
        if not isinstance(self.system, str) or not isinstance(self.user, str):
            raise ConfigurationError("A prompt is two texts: Prompt(system, user); give both as strings.")
        if self.user.count(SLOT) != 1:
            raise ConfigurationError(
                "The user part of a prompt needs {text} exactly once; write it there once."
            )
        if SLOT in self.system:
            raise ConfigurationError("The system part of a prompt holds {text}; move it to the user part.")

    @classmethod
    def from_text(cls, content: str) -> Prompt:
        """A prompt from a file's content: the system part, a line `---`, the user part.

        Without that line all of it is the system part, unless it holds `{text}`: then it is the user part.
        """
        parts = _SPLIT.split(content, maxsplit=1)
        if len(parts) == 2:
            return cls(parts[0].strip(), parts[1].strip())
        return cls("", content.strip()) if SLOT in content else cls(content.strip())

    @classmethod
    def from_file(cls, path: str | Path) -> Prompt:
        """A prompt from a UTF-8 file; a relative path starts at the folder of the file that calls this."""
        frame = inspect.currentframe()
        caller = frame.f_back.f_globals.get("__file__") if frame is not None and frame.f_back else None
        target = Path(caller).parent / path if isinstance(caller, str) else Path(path)
        try:
            content = target.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise ConfigurationError(
                f"The prompt file {target} cannot be read ({error.strerror}); check its path."
            ) from error
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"The prompt file {target} is not UTF-8; save it as UTF-8.") from error
        return cls.from_text(content)


def messages(prompt: Prompt, text: str, correction: str | None = None) -> tuple[tuple[str, str], ...]:
    """Role and content of each message; the record's text is in the last one and nowhere else.

    `correction` is the fixed text of a second pass; the rest is the same as in the first.
    """
    opening = (("system", prompt.system),) if prompt.system else ()
    corrected = () if correction is None else (("system", correction),)
    before, after = prompt.user.split(SLOT)
    return (*opening, *corrected, ("user", before + text + after))
