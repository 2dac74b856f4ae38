"""The one grammar in which every program is configured.

A program describes its settings as a tree of frozen structs, with a unit in each name
and a docstring for each group. `read` fills the tree from a plain mapping (the TOML
file) and from environment variables (`WINDVANE__GROUP__KEY=value`, which win), and
returns either the settings or every problem at once, each with its place: a person who
mistyped three keys learns of three.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
import orjson

S = TypeVar("S", bound=msgspec.Struct)

ENV_PREFIX: Final = "WINDVANE__"


class Problems(ValueError):
    """Everything that is wrong with a configuration, one line each, in `lines`."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def read(shape: type[S], table: Mapping[str, Any], environ: Mapping[str, str]) -> S:
    """Settings of type `shape`; raises `Problems` that names all that is wrong."""
    merged = _overlay(shape, table, environ)
    problems: list[str] = []
    settings = _read(shape, merged, "", problems)
    if problems or settings is None:
        raise Problems(problems)
    return settings


def _overlay(
    shape: type[msgspec.Struct], table: Mapping[str, Any], environ: Mapping[str, str]
) -> dict[str, Any]:
    merged = {k: dict(v) if isinstance(v, Mapping) else v for k, v in table.items()}
    for name, text in environ.items():
        if not name.startswith(ENV_PREFIX):
            continue
        *groups, key = name.removeprefix(ENV_PREFIX).lower().split("__")
        place: dict[str, Any] = merged
        for group in groups:
            inner = place.setdefault(group, {})
            place = inner if isinstance(inner, dict) else {}
        place[key] = _scalar(text, _type_at(shape, groups, key))
    return merged


def _type_at(shape: Any, groups: list[str], key: str) -> Any:
    for name in (*groups, key):
        if not _is_struct(shape):
            return None
        shape = {f.name: f.type for f in msgspec.structs.fields(shape)}.get(name)
    return shape


def _scalar(text: str, kind: Any) -> Any:
    """`text` as it is where a string may stand, else as the JSON value it looks like."""
    try:
        return msgspec.convert(text, kind)
    except msgspec.ValidationError:
        pass
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _read(shape: type[S], table: Any, place: str, problems: list[str]) -> S | None:
    if not isinstance(table, Mapping):
        problems.append(f"{place or 'configuration'}: a table must stand here, not {table!r}")
        return None
    fields = {f.name: f for f in msgspec.structs.fields(shape)}
    known = ", ".join(sorted(fields))
    found_before = len(problems)
    problems += [
        f"{_at(place, name)}: unknown key; known here: {known}"
        for name in table
        if name not in fields
    ]
    values = {
        name: _field(field, table, _at(place, name), problems)
        for name, field in fields.items()
        if name in table or field.required
    }
    if len(problems) > found_before:
        return None
    try:
        return shape(**values)
    except ValueError as error:
        problems.append(f"{place or 'configuration'}: {error}")
        return None


def _field(
    field: msgspec.structs.FieldInfo, table: Mapping[str, Any], at: str, problems: list[str]
) -> Any:
    if _is_struct(field.type):
        return _read(field.type, table.get(field.name, {}), at, problems)
    if field.name not in table:
        problems.append(f"{at}: missing, and there is no default")
        return None
    value = table[field.name]
    try:
        return msgspec.convert(value, field.type)
    except msgspec.ValidationError as error:
        problems.append(f"{at}: {error}, got {value!r}")
        return None


def _at(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
