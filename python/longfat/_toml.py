"""Writes values as TOML."""

from __future__ import annotations

import json
import re
from typing import Any, Iterator, Mapping

from longfat.errors import BadInput

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def key(name: str) -> str:
    """A key, quoted if necessary."""
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name)


def plain(value: Any) -> Any:
    """Dataclasses as mappings, without fields that are ``None``; numbers and arrays of NumPy as those of Python."""
    # dataclasses.is_dataclass without its slow import.
    if hasattr(type(value), "__dataclass_fields__"):
        named = {name: getattr(value, name) for name in type(value).__dataclass_fields__}
        more = named.pop("more", None) or {}
        given = {name.rstrip("_"): item for name, item in named.items() if item is not None}
        return {name: plain(item) for name, item in {**given, **more}.items()}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    # Checked without importing NumPy. The repr of its values, as in np.float64(0.5), is not TOML.
    if type(value).__module__ == "numpy":
        return value.tolist()
    return value


def inline(value: Any) -> str:
    """A value on one line."""
    value = plain(value)
    if value is None:
        raise BadInput("None is no value of a scenario: omit the key")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    if isinstance(value, dict):
        pairs = (f"{key(name)} = {inline(item)}" for name, item in value.items())
        return "{ " + ", ".join(pairs) + " }"
    # Strings have the same escapes in JSON and TOML.
    return json.dumps(str(value), ensure_ascii=False)


def document(table: Mapping[str, Any]) -> str:
    """A document: values, then tables, then lists of tables."""
    table = plain(table)
    is_list = lambda value: isinstance(value, list) and value and all(isinstance(one, dict) for one in value)
    lines = [
        f"{key(name)} = {inline(value)}"
        for name, value in table.items()
        if not isinstance(value, dict) and not is_list(value)
    ]
    for name, value in table.items():
        if isinstance(value, dict):
            lines.append(f"\n[{key(name)}]")
            lines += [f"{key(inner)} = {inline(item)}" for inner, item in value.items()]
        elif is_list(value):
            for one in value:
                lines.append(f"\n[[{key(name)}]]")
                lines += [f"{key(inner)} = {inline(item)}" for inner, item in one.items()]
    return "\n".join(lines) + "\n"


# Number of names between a section and a value, as in links.s1-s2.forward.rate.
_DEPTH = {"hosts": 2, "links": 3, "flows": 2, "routers": 2}


def changes(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The paths and values of changes: dotted paths, or mappings as in the file."""
    for name, value in given.items():
        value = plain(value)
        depth = _DEPTH.get(name, 0)
        if isinstance(value, dict) and depth:
            yield from _nested(name, value, depth)
        else:
            yield name, text(value)


def _nested(path: str, value: Mapping[str, Any], depth: int) -> Iterator[tuple[str, str]]:
    for name, item in value.items():
        below = f"{path}.{key(name)}"
        # Sysctls have one more name.
        has_more = depth > 1 or name == "sysctl"
        if isinstance(item, dict) and has_more:
            yield from _nested(below, item, depth - 1)
        else:
            yield below, text(item)


def text(value: Any) -> str:
    """A value as after ``--set KEY=``: texts unchanged, all other values as TOML."""
    return value if isinstance(value, str) else inline(value)
