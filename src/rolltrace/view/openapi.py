"""The OpenAPI document of the server, made from the table of endpoints and from the types."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import msgspec

from rolltrace.query.model import lists, store, trajectory
from rolltrace.query.model.store import Problem
from rolltrace.view import requests
from rolltrace.view.requests import ENDPOINTS, WRITES, Endpoint
from rolltrace.view.writes import HEADER, HEADER_VALUE

_REFERENCE = "#/components/schemas/{name}"
_KINDS: dict[str, type] = {
    name: kind for module in (lists, store, trajectory, requests) for name, kind in vars(module).items()
}


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    answers = [each.answer for each in (*ENDPOINTS, *WRITES) if not isinstance(each.answer, str)]
    schemas = {**_schemas(*answers, Problem), **_schemas(*(each.request for each in WRITES))}
    return {
        "openapi": "3.1.0",
        "info": {"title": "rolltrace view", "version": "1"},
        "paths": {
            **{each.path: {"get": _operation(each)} for each in ENDPOINTS},
            **{each.path: {"post": _operation(each)} for each in WRITES},
        },
        "components": {"schemas": schemas},
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    content = {endpoint.answer: {}} if isinstance(endpoint.answer, str) else _json(endpoint.answer)
    about: dict[str, Any] = {"operationId": endpoint.name, "summary": endpoint.summary}
    if endpoint in WRITES:
        header = {"name": HEADER, "in": "header", "required": True, "schema": {"const": HEADER_VALUE}}
        about |= {"parameters": [header], "requestBody": {"required": True, "content": _json(endpoint.request)}}
    else:
        about["parameters"] = [*_path_parameters(endpoint.path), *_query_parameters(endpoint)]
    return {**about, "responses": _responses(content)}


def _responses(content: dict[str, Any]) -> dict[str, Any]:
    return {
        "200": {"description": "the answer", "content": content},
        "default": {"description": "why there is none", "content": _json(Problem)},
    }


def _json(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REFERENCE.format(name=kind.__name__)}}}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    names = re.findall(r"\{(\w+)\}", path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    schema = _schemas(endpoint.request)[endpoint.request.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": field}
        for name, field in schema["properties"].items()
    ]


def _schemas(*kinds: type[msgspec.Struct]) -> dict[str, Any]:
    """The schemas of these types and of all in them, with the docstrings under their fields; msgspec knows those of
    classes only."""
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    for name, schema in schemas.items():
        for base in _KINDS[name].__mro__:
            for field, text in _field_docs(base).items():
                described = schema["properties"][field]
                if "$ref" in described:  # stands alone in a schema
                    schema["properties"][field] = {"allOf": [described], "description": text}
                else:
                    described["description"] = text
    return schemas


def _field_docs(of: type) -> dict[str, str]:
    """The docstrings under the fields of a class of ours."""
    if not of.__module__.startswith("rolltrace."):
        return {}
    (node,) = ast.parse(inspect.getsource(of)).body
    assert isinstance(node, ast.ClassDef)
    return {
        field.target.id: after.value.value
        for field, after in zip(node.body, node.body[1:])
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(after.value.value, str)
    }
