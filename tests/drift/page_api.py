"""docs/reference/openapi.json and the client's types, from the shapes of the page's API."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from runspine.services.dashboard.edges.api.site import build_api

TYPES_HEAD = "// Generated from docs/reference/openapi.json by `make proto`. Do not edit.\n"
SCALARS = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}


def openapi() -> dict[str, Any]:
    # The routes need nothing but their names here.
    nothing: Any = SimpleNamespace(table=None)
    return build_api(nothing, nothing, nothing, nothing, nothing, nothing).openapi()


def openapi_text() -> str:
    return json.dumps(openapi(), indent=1, sort_keys=True) + "\n"


def client_types() -> str:
    """A TypeScript type for each shape."""
    schemas = openapi()["components"]["schemas"]
    return TYPES_HEAD + "".join(_declared(name, schemas[name]) for name in sorted(schemas))


def _declared(name: str, schema: dict[str, Any]) -> str:
    required = set(schema.get("required", []))
    fields = [
        f"  {field}{'' if field in required else '?'}: {_type(inner)};"
        for field, inner in schema.get("properties", {}).items()
    ]
    return "\n".join([f"\nexport interface {name} {{", *fields, "}", ""])


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    match schema.get("type"):
        case "array":
            return f"({_type(schema['items'])})[]"
        case "object":
            inner = schema.get("additionalProperties")
            return f"Record<string, {_type(inner) if isinstance(inner, dict) else 'unknown'}>"
        case str(word):
            return SCALARS[word]
    return "unknown"
