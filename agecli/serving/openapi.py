"""The OpenAPI description of the server, as `/openapi.json` has it. Tests compare it with real answers."""

from __future__ import annotations

from typing import Any

from agecli.core.version import __version__
from agecli.serving.photos import ACCEPTED
from agecli.serving.queries import MOST_PIXELS
from agecli.serving.refusals import STATUSES
from agecli.serving.settings import Settings

Schema = dict[str, Any]
MEANINGS = {
    400: "The photo can't be decoded, the body is malformed, or a query parameter is wrong.",
    401: "The token is missing or wrong.",
    403: "A web page of another site sent the request.",
    404: "There is no such path.",
    405: "The path has no such method.",
    408: "The upload took too long.",
    413: "The body or the photo is too large.",
    415: "The body is not a picture of a format that is accepted.",
    421: "The Host header is not a name of this server.",
    429: "The queue is full.",
    500: "An error of the server itself.",
    503: "The model is loading.",
    504: "The deadline has passed.",
}
NUMBER, TEXT = {"type": ["number", "null"]}, {"type": ["string", "null"]}
FIELDS: dict[str, Schema] = {  # of a record, as in docs/predict.md
    "schema": {"const": 1},
    "source": {"type": "string"},
    "status": {"enum": ["ok", "no_face", "unreadable", "crashed"]},
    "face": {"type": ["integer", "null"], "minimum": 0},
    "age": {**NUMBER, "minimum": 0, "description": "Years."},
    "std": {**NUMBER, "minimum": 0},
    "low": {**NUMBER, "minimum": 0, "description": "Lower end of the interval."},
    "high": {**NUMBER, "minimum": 0, "description": "Upper end of the interval."},
    "coverage": {**NUMBER, "description": "Nominal coverage of the interval."},
    "box": {
        "type": ["array", "null"],
        "items": {"type": "integer"},
        "minItems": 4,
        "maxItems": 4,
        "description": "x, y, width, height in pixels of the upright photo.",
    },
    "score": NUMBER,
    "error": TEXT,
    "interval": {"enum": ["conformal", "mixture", None]},
    "time": NUMBER,
    "track": {"type": ["integer", "null"]},
    "eyes": {**NUMBER, "description": "Distance between the pupils, in pixels of the photo."},
    "sharpness": NUMBER,
}
OPTIONAL: dict[str, Schema] = {
    "shift": {**NUMBER, "description": "How unlike the calibration faces it looks."},
    "distribution": {
        "type": ["array", "null"],
        "items": {"type": "number", "minimum": 0, "maximum": 1},
        "description": "Probability of each age in whole years, from 0 on.",
    },
}
RECORD: Schema = {
    "type": "object",
    "description": "A face with its age; or a photo without any, and why.",
    "required": list(FIELDS),
    "properties": {**FIELDS, **OPTIONAL},
    "additionalProperties": False,
}
MODEL: Schema = {
    "type": "object",
    "required": ["name", "sha256"],
    "properties": {"name": {"type": "string"}, "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"}},
    "additionalProperties": False,
}
ANSWER: Schema = {
    "type": "object",
    "required": ["model", "records"],
    "properties": {
        "model": {"$ref": "#/components/schemas/Model"},
        "records": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Record"}},
    },
    "additionalProperties": False,
}
ERROR: Schema = {
    "type": "object",
    "required": ["error", "reason", "hint"],
    "properties": {"error": {"enum": list(STATUSES)}, "reason": {"type": "string"}, "hint": {"type": "string"}},
    "additionalProperties": False,
}
STATE: Schema = {
    "type": "object",
    "required": ["status"],
    "properties": {"status": {"enum": ["ok", "ready"]}},
    "additionalProperties": False,
}
PARAMETERS: list[Schema] = [
    {
        "name": "largest",
        "in": "query",
        "description": "Only the main face: large and central.",
        "schema": {"enum": ["true", "false", "1", "0"], "default": "false"},
    },
    {
        "name": "distribution",
        "in": "query",
        "description": "Add the probability of each year of age.",
        "schema": {"enum": ["true", "false", "1", "0"], "default": "false"},
    },
    {
        "name": "min_face",
        "in": "query",
        "description": "Leave out faces smaller than this, in pixels.",
        "schema": {"type": "integer", "minimum": 0, "maximum": MOST_PIXELS, "default": 0},
    },
]


def description(settings: Settings) -> Schema:
    """The OpenAPI 3.1 document of a server with these settings."""
    photo = {"type": "string", "format": "binary", "maxLength": settings.body_bytes}
    binary = {"type": "string", "format": "binary"}
    errors = (400, 401, 403, 408, 413, 415, 421, 429, 503, 504)
    predict = {
        "operationId": "predict",
        "summary": "The age of every face in one photo.",
        "parameters": PARAMETERS,
        "requestBody": {
            "required": True,
            "description": f"The bytes of the photo: {ACCEPTED}.",
            "content": {"image/*": {"schema": photo}, "application/octet-stream": {"schema": photo}},
        },
        "responses": {"200": _answer("application/json", "#/components/schemas/Answer"), **_errors(errors)},
    }
    batch = {
        "operationId": "predictBatch",
        "summary": f"The same for up to {settings.max_batch} photos: a line of JSON for each record, in their order.",
        "parameters": PARAMETERS,
        "requestBody": {
            "required": True,
            "description": "A form in which every part is a photo, or a tar archive that is not compressed.",
            "content": {
                "multipart/form-data": {"schema": {"type": "object", "minProperties": 1}},
                "application/x-tar": {"schema": binary},
            },
        },
        "responses": {
            "200": {
                "description": "NDJSON: each line is a Record whose source is the name in the form or archive.",
                "headers": {name: {"schema": {"type": "string"}} for name in ("Agecli-Model", "Agecli-Model-SHA256")},
                "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
            },
            **_errors(errors),
        },
    }
    document: Schema = {
        "openapi": "3.1.0",
        "info": {
            "title": "agecli",
            "version": __version__,
            "summary": "Estimates the age of every face in a photo, with a 90 % interval.",
            "license": {"name": "MIT"},
        },
        "paths": {
            "/v1/predict": {"post": predict},
            "/v1/predict/batch": {"post": batch},
            "/healthz": {"get": _get("health", "The process answers.", "application/json", "State")},
            "/readyz": {"get": _get("ready", "The model is loaded.", "application/json", "State", 503)},
            "/metrics": {"get": _get("metrics", "Metrics for Prometheus.", "text/plain", None, 401)},
            "/openapi.json": {"get": _get("openapi", "This document.", "application/json", "Document")},
            "/": {"get": _get("page", "The web page.", "text/html", None)},
        },
        "components": {
            "schemas": {
                "Answer": ANSWER,
                "Record": RECORD,
                "Model": MODEL,
                "Error": ERROR,
                "State": STATE,
                "Document": {"type": "object", "required": ["openapi", "info", "paths"]},
            }
        },
    }
    if settings.token is not None:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path in ("/v1/predict", "/v1/predict/batch", "/metrics"):
            for operation in document["paths"][path].values():
                operation["security"] = [{"token": []}]
    return document


def _get(name: str, summary: str, media_type: str, schema: str | None, *errors: int) -> Schema:
    """An operation without parameters.   schema: a name of the components; None is text"""
    reference = f"#/components/schemas/{schema}" if schema else None
    responses = {"200": _answer(media_type, reference), **_errors((403, *errors, 421))}
    return {"operationId": name, "summary": summary, "responses": responses}


def _answer(media_type: str, reference: str | None) -> Schema:
    schema = {"$ref": reference} if reference else {"type": "string"}
    return {"description": "The answer.", "content": {media_type: {"schema": schema}}}


def _errors(statuses: tuple[int, ...]) -> dict[str, Schema]:
    """The answers with these statuses."""
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    headers = {
        401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
        429: {"Retry-After": {"schema": {"type": "string"}}},
        503: {"Retry-After": {"schema": {"type": "string"}}},
    }
    return {
        str(status): {"description": MEANINGS[status], "content": content, "headers": headers.get(status, {})}
        for status in statuses
    }
