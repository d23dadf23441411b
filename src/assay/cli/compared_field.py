"""The field of a contract that is compared with gold, and how its values are written as labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

from assay.cli.json_text import to_json
from assay.cli.label_fields import closed_list, label_fields, types_of
from assay.domain.contract import Contract, plan_of
from assay.domain.failures import ConfigurationError
from assay.domain.findings import pointer
from assay.domain.json_text import Json, Number

# Beyond this, two numbers are compared as they are written: nobody's gold is that large.
_MAX_EXPONENT: Final = 400


@dataclass(frozen=True, slots=True)
class ComparedField:
    """A top-level field. `closed`: its labels where the contract lists them. `numeric`: 12.50 is 12.5."""

    key: str
    sensitive: bool
    numeric: bool
    closed: tuple[str, ...] | None

    @property
    def pointer(self) -> str:
        """The field's JSON Pointer."""
        return pointer([self.key])

    def label(self, value: Json) -> str:
        """A value as a label; raises `ConfigurationError` for an array or an object."""
        if isinstance(value, dict | list):
            raise ConfigurationError(
                f"The field {self.key} holds no single value; name another one with --field."
            )
        if isinstance(value, str) and not isinstance(value, Number):
            return value
        return _plain_number(to_json(value)) if isinstance(value, Number) else to_json(value)

    def gold_label(self, text: str) -> str:
        """A gold label, written as the field's own values are."""
        return _plain_number(text) if self.numeric else text


def compared_field(
    definition: Mapping[str, object], contract: type[Contract], named: str | None
) -> ComparedField:
    """The named field, or the contract's label field. Raises `ConfigurationError` when there is none."""
    fields = label_fields(definition)
    stored = definition.get("contract")
    name = named or (stored.get("label_field") if isinstance(stored, Mapping) else None)
    if not isinstance(name, str):
        raise ConfigurationError(
            f"The contract does not say which field is the label; name one with --field: "
            f"{', '.join(fields.keys)}."
        )
    keys = {field.name: field.key for field in plan_of(contract).root.fields}
    key = name if name in fields.keys else keys.get(name, name)
    if key not in fields.keys:
        raise ConfigurationError(f"There is no field {name}; the fields are {', '.join(fields.keys)}.")
    closed = closed_list(definition, key)
    return ComparedField(
        key=key,
        sensitive=pointer([key]) in fields.sensitive,
        numeric=bool(types_of(definition, key) & {"number", "integer"}),
        closed=None if closed is None else tuple(v if isinstance(v, str) else to_json(v) for v in closed),
    )


def _plain_number(text: str) -> str:
    """A number without trailing zeros or exponent; other text as it is."""
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return text
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > _MAX_EXPONENT:
        return text
    return f"{number.normalize() + 0:f}"
