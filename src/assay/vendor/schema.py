"""Puts an answer into the shape that the request's JSON schema asks for.

This is no schema validator. It reads `properties`, `required`, `enum`, `const`, `$ref`, `anyOf` and the
plain limits, which is what contracts use, and fills what it knows; a required property that it knows nothing
about gets the plainest value its schema allows, as a model would rather say something than leave it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from assay.vendor.answers import Answer
from assay.vendor.gold import Json, JsonObject

DEEPEST: Final = 12
_REASON_NAMES: Final = ("reason", "rationale", "explanation", "justification")
_PLAIN: Final[dict[str, Json]] = {"boolean": False, "null": None, "string": "not stated"}


def shape(
    answer: Answer, label_field: str, schema: JsonObject | None, only: Sequence[str] | None
) -> JsonObject:
    """The answer as an object with the schema's properties in their order.

    Without a schema: label, confidence and reason, or the extracted fields alone.
    `only` restricts and orders the fields where there is no schema.
    """
    known = _known(answer, label_field)
    if schema is None:
        return known if only is None else {name: known[name] for name in only if name in known}
    top = _resolved(schema, schema)
    properties = _object(top.get("properties"))
    if not properties:
        return known
    required = top.get("required")
    must = required if isinstance(required, list) else []
    shaped: JsonObject = {}
    for name, declared in properties.items():
        spec = _object(declared)
        found, value = _fill(name, spec, known, answer, schema)
        if found:
            shaped[name] = value
        elif name in must:
            shaped[name] = _plainest(spec, schema, DEEPEST)
    return shaped


def allowed_labels(schema: JsonObject | None, label_field: str) -> list[str] | None:
    """The labels that the schema lists for the label field, or for the only property that lists any."""
    if schema is None:
        return None
    properties = _object(_resolved(schema, schema).get("properties"))
    listed = {name: found for name, spec in properties.items() if (found := _enum(_object(spec), schema))}
    if label_field in properties:
        return listed.get(label_field)
    return next(iter(listed.values())) if len(listed) == 1 else None


def _known(answer: Answer, label_field: str) -> JsonObject:
    if answer.label is None:
        return dict(answer.extracted)
    return {label_field: answer.label, "confidence": answer.confidence, "reason": answer.reason}


def _fill(
    name: str, spec: JsonObject, known: JsonObject, answer: Answer, root: JsonObject
) -> tuple[bool, Json]:
    if name in known:
        return True, known[name]
    if name == "confidence":
        return True, answer.confidence
    if name in _REASON_NAMES:
        return True, answer.reason
    if answer.label is not None and answer.label in _enum(spec, root):
        return True, answer.label
    return False, None


def _plainest(spec: JsonObject, root: JsonObject, depth: int) -> Json:
    spec = _resolved(spec, root)
    choices = _choices(spec)
    options = spec.get("enum")
    plain: Json = None
    if choices and depth:
        nullable = any(choice.get("type") == "null" for choice in choices)
        plain = None if nullable else _plainest(choices[0], root, depth - 1)
    elif isinstance(options, list) and options:
        plain = options[0]
    elif "const" in spec:
        plain = spec["const"]
    elif depth:
        plain = _plainest_of_type(spec, root, depth)
    return plain


def _plainest_of_type(spec: JsonObject, root: JsonObject, depth: int) -> Json:
    kind = spec.get("type")
    if kind in ("number", "integer"):
        least = spec.get("minimum", 0)
        return least if isinstance(least, (int, float)) else 0
    if kind == "array":
        count = spec.get("minItems", 0)
        item = _plainest(_object(spec.get("items")), root, depth - 1)
        return [item] * min(count, 10) if isinstance(count, int) else []
    if kind == "object":
        required = spec.get("required")
        names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        properties = _object(spec.get("properties"))
        return {name: _plainest(_object(properties.get(name)), root, depth - 1) for name in names}
    return _PLAIN.get(kind) if isinstance(kind, str) else None


def _resolved(spec: JsonObject, root: JsonObject) -> JsonObject:
    """Follow `$ref` into the root's definitions."""
    for _ in range(DEEPEST):
        reference = spec.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        spec = root
        for step in reference[2:].split("/"):
            spec = _object(spec.get(step.replace("~1", "/").replace("~0", "~")))
    return spec


def _choices(spec: JsonObject) -> list[JsonObject]:
    alternatives = spec.get("anyOf") or spec.get("oneOf") or spec.get("allOf")
    return [_object(one) for one in alternatives] if isinstance(alternatives, list) else []


def _enum(spec: JsonObject, root: JsonObject, depth: int = 3) -> list[str]:
    spec = _resolved(spec, root)
    options = spec.get("enum")
    listed = options if isinstance(options, list) else [spec.get("const")]
    found = [option for option in listed if isinstance(option, str)]
    if depth:
        found += [option for choice in _choices(spec) for option in _enum(choice, root, depth - 1)]
    return found


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
