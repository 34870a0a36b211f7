"""The OpenAPI description: true of real answers, and of whatever schemathesis makes up from it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import validator_for

from agecli.core.records import OPTIONAL_COLUMNS, RECORD_COLUMNS
from agecli.prediction.options import Options
from agecli.serving.access import PATHS
from agecli.serving.app import ROUTES
from agecli.serving.openapi import FIELDS, OPTIONAL, description
from agecli.serving.refusals import STATUSES
from agecli.serving.settings import Settings
from tests.serving.running import Answer, Running
from tests.serving.test_api import FORM, form


@pytest.fixture(scope="module")
def document(server: Running) -> dict[str, Any]:
    found: dict[str, Any] = server.get("/openapi.json").json
    return found


def check(document: dict[str, Any], name: str, value: object) -> None:
    """Raises ValidationError if a value does not fit a schema of the document."""
    validator_for({**document, "$ref": f"#/components/schemas/{name}"}).validate(value)


def check_answer(document: dict[str, Any], method: str, path: str, answer: Answer) -> None:
    """The status, the media type and the body of an answer are as described."""
    described = document["paths"][path][method]["responses"][str(answer.status)]
    media_type = answer.headers["content-type"].partition(";")[0]
    schema = described["content"][media_type]["schema"]
    if "$ref" in schema:
        check(document, schema["$ref"].rpartition("/")[2], answer.json)


def test_answers_are_as_described(
    server: Running, document: dict[str, Any], portrait: bytes, couple: bytes, noise: bytes
) -> None:
    bodies = (portrait, couple, noise, b"text", b"", portrait[:3000])
    for query in ("", "?distribution=true", "?largest=1", "?min_face=x"):
        for body in bodies:
            check_answer(document, "post", "/v1/predict", server.predict(body, query))
    check_answer(document, "post", "/v1/predict", server.predict(portrait, Origin="http://evil.example"))
    check_answer(document, "post", "/v1/predict", server.predict(portrait, Host="evil.example"))
    photos = {str(number): body for number, body in enumerate(bodies)}
    batch = server.post("/v1/predict/batch?distribution=1", form(photos), Content_Type=FORM)
    check_answer(document, "post", "/v1/predict/batch", batch)
    for record in batch.lines:
        check(document, "Record", record)
    assert {record["status"] for record in batch.lines} == {"ok", "no_face", "unreadable"}
    check_answer(document, "post", "/v1/predict/batch", server.post("/v1/predict/batch", b"", Content_Type=FORM))
    for path in ("/", "/healthz", "/readyz", "/metrics", "/openapi.json"):
        check_answer(document, "get", path, server.get(path))


def test_a_wrong_answer_would_be_found(server: Running, document: dict[str, Any], portrait: bytes) -> None:
    record = server.predict(portrait).json["records"][0]
    check(document, "Record", record)
    for wrong in ({**record, "age": "34"}, {**record, "extra": 1}, {**record, "box": [1, 2]}):
        with pytest.raises(ValueError):  # noqa: PT011
            check(document, "Record", wrong)


def test_the_description_has_every_field_status_and_path() -> None:
    assert tuple(FIELDS) == RECORD_COLUMNS
    columns = Options(distribution=True).columns(shift=True)
    assert set(OPTIONAL) == set(columns) - set(RECORD_COLUMNS) <= set(OPTIONAL_COLUMNS)
    document = description(Settings(token="a-token-of-16-letters"))
    assert set(document["paths"]) == set(PATHS) == {route.path for route in ROUTES}
    assert document["components"]["schemas"]["Error"]["properties"]["error"]["enum"] == list(STATUSES)
    secured = {
        path for path, methods in document["paths"].items() for method in methods.values() if "security" in method
    }
    assert secured == {"/v1/predict", "/v1/predict/batch", "/metrics"}


@pytest.mark.slow
def test_schemathesis_finds_nothing(server: Running, tmp_path: Path) -> None:
    config = Path(__file__).with_name("schemathesis.toml")
    command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config), "run"]
    options = ["--max-examples", "10", "--checks", "all", "--seed", "1", "--no-color"]
    done = subprocess.run(
        [*command, *options, f"http://127.0.0.1:{server.port}/openapi.json"],
        cwd=tmp_path,  # where it leaves its cache
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ((generated, passed),) = re.findall(r"(\d+) generated, (\d+) passed", done.stdout)
    assert int(generated) == int(passed) > 100
