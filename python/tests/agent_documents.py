"""Writes longfat/agent_documents.py: the types of the documents in an OpenAPI description."""

from __future__ import annotations

import textwrap
from typing import Any

HEAD = '''"""The documents of ``longfat agent``'s HTTP interface.

Written from its OpenAPI description by a test: ``LONGFAT_UPDATE=1 scripts/test-python.sh -k description``.
"""

from typing import Literal, Optional, TypedDict

__all__ = [
{names}
]
'''
NAMES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
PREFIX = "#/components/schemas/"


def source(description: dict[str, Any]) -> str:
    """The text of the module: all documents that responses contain, each after those that it refers to."""
    schemas = description["components"]["schemas"]
    written: dict[str, str] = {}
    for operations in description["paths"].values():
        for operation in operations.values():
            for content in operation["responses"]["200"]["content"].values():
                _write(content["schema"], schemas, written)
    names = "\n".join(f'    "{name}",' for name in sorted(written))
    return HEAD.replace("{names}", names) + "".join(written.values())


def _write(schema: dict[str, Any], schemas: dict[str, Any], written: dict[str, str]) -> None:
    """Writes the documents in a schema that are not written yet."""
    for inner in [schema.get("items"), *schema.get("anyOf", []), *schema.get("properties", {}).values()]:
        if isinstance(inner, dict):
            _write(inner, schemas, written)
    name = schema.get("$ref", "").removeprefix(PREFIX)
    if not name or name in written:
        return
    target = schemas[name]
    _write(target, schemas, written)
    if "oneOf" in target:
        values = ", ".join(f'"{one["const"]}"' for one in target["oneOf"])
        meanings = "".join(_comment(f'{one["const"]}: {one["description"]}', "") for one in target["oneOf"])
        text = f"\n{meanings}{name} = Literal[{values}]\n"
    else:
        fields = "".join(
            _comment(field["description"], "        ") + f'        "{key}": {_type(field)},\n'
            for key, field in target["properties"].items()
        )
        text = f'\n{_comment(target["description"], "")}{name} = TypedDict(\n    "{name}",\n    {{\n{fields}    }},\n)\n'
    written[name] = text


def _comment(text: str, indent: str) -> str:
    return textwrap.fill(" ".join(text.split()), 118, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ") + "\n"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return schema["$ref"].removeprefix(PREFIX)
    if "anyOf" in schema:
        [inner] = [one for one in schema["anyOf"] if one.get("type") != "null"]
        return f"Optional[{_type(inner)}]"
    kind = schema["type"]
    if isinstance(kind, list):
        [inner] = [one for one in kind if one != "null"]
        return f"Optional[{NAMES[inner]}]"
    if kind == "array":
        return f"list[{_type(schema['items'])}]"
    if kind == "object":
        return f"dict[str, {_type(schema['additionalProperties'])}]"
    return NAMES[kind]
