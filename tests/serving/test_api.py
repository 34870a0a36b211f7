"""The API: the records of the command line, in the order of the photos, and errors with a reason."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
from PIL import Image

from agecli.model.bundled import bundled
from tests.conftest import Cli
from tests.serving.conftest import encoded
from tests.serving.running import PORTRAIT, Running, samples

FORM = "multipart/form-data; boundary=cut"


def form(photos: dict[str, bytes]) -> bytes:
    """Photos as a multipart body with the boundary `cut`."""
    head = 'Content-Disposition: form-data; name="photo"; filename="{}"\r\nContent-Type: image/jpeg\r\n\r\n'
    parts = (f"--cut\r\n{head.format(name)}".encode() + data + b"\r\n" for name, data in photos.items())
    return b"".join(parts) + b"--cut--\r\n"


def tar(photos: dict[str, bytes], kind: int = tarfile.PAX_FORMAT) -> bytes:
    """Photos as a tar archive, after a folder and a link."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=kind) as archive:
        folder, link = tarfile.TarInfo("folder"), tarfile.TarInfo("link")
        folder.type, link.type, link.linkname = tarfile.DIRTYPE, tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(folder)
        archive.addfile(link)
        for name, data in photos.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


@pytest.mark.parametrize("query", ["", "largest=true", "distribution=1&min_face=75"])
def test_the_records_are_those_of_the_command_line(
    query: str, server: Running, cli: Cli, tmp_path: Path, portrait: bytes, couple: bytes, noise: bytes
) -> None:
    photos = {"portrait.jpg": portrait, "couple.png": couple, "noise.png": noise}
    for name, data in photos.items():
        (tmp_path / name).write_bytes(data)
    options = {"": [], "largest=true": ["--largest"]}.get(query, ["--distribution", "--min-face", 75])
    lines = [json.loads(line) for line in cli("predict", *photos, *options).stdout.splitlines()]
    answers = [server.predict(data, f"?{query}") for data in photos.values()]
    assert [answer.status for answer in answers] == [200] * 3
    records = [
        {**record, "source": name}
        for name, answer in zip(photos, answers, strict=True)
        for record in answer.json["records"]
    ]
    assert [list(record.items()) for record in records] == [list(line.items()) for line in lines]  # in this order, too
    assert len(records) == (4 if query == "" else 3)
    batch = server.post(f"/v1/predict/batch?{query}", form(photos), Content_Type=FORM)
    assert batch.lines == lines
    assert batch.headers["content-type"] == "application/x-ndjson"


def test_the_answer_names_the_model_and_its_hash(server: Running, portrait: bytes) -> None:
    model = bundled(".onnx")
    expected = {"name": model.name, "sha256": hashlib.sha256(model.read_bytes()).hexdigest()}
    assert server.predict(portrait).json["model"] == expected
    headers = server.post("/v1/predict/batch", form({"a": portrait}), Content_Type=FORM).headers
    assert (headers["agecli-model"], headers["agecli-model-sha256"]) == tuple(expected.values())


def test_a_photo_taken_sideways_has_its_box_in_the_upright_photo(server: Running, portrait: bytes) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = encoded(Image.open(PORTRAIT).rotate(90, expand=True), "JPEG", exif=exif, quality=95)
    (upright,), (sideways,) = (server.predict(photo).json["records"] for photo in (portrait, turned))
    assert sideways["box"] == pytest.approx(upright["box"], abs=6)
    assert sideways["age"] == pytest.approx(upright["age"], abs=3)


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_an_archive_gives_a_line_for_each_file_in_order(server: Running, portrait: bytes, kind: int) -> None:
    long = "a folder/" * (11 if kind == tarfile.USTAR_FORMAT else 40) + "ü.jpg"
    names = ["b.jpg", "../../etc/passwd", long, "a.txt", "empty"]
    photos = dict(zip(names, (portrait, portrait, portrait, b"text", b""), strict=True))
    answer = server.post("/v1/predict/batch?largest=1", tar(photos, kind), Content_Type="application/x-tar")
    assert [line["source"] for line in answer.lines] == names
    assert [line["status"] for line in answer.lines] == ["ok"] * 3 + ["unreadable"] * 2


def test_a_batch_may_arrive_in_pieces_of_any_size(server: Running, portrait: bytes) -> None:
    photos = {"a.jpg": portrait, "b.jpg": b"text"}
    for kind, body in ((FORM, form(photos)), ("application/x-tar", tar(photos))):
        pieces = (body[start : start + 700] for start in range(0, len(body), 700))
        answer = server.post("/v1/predict/batch", pieces, Content_Type=kind)
        assert [(line["source"], line["status"]) for line in answer.lines] == [("a.jpg", "ok"), ("b.jpg", "unreadable")]


@pytest.mark.parametrize(
    ("body", "kind", "status", "words"),
    [
        (b"", FORM, 400, "malformed"),
        (b"--cut--\r\n", FORM, 400, "no photos"),
        (b"--other\r\n", FORM, 400, "malformed"),
        (b"--cut\r\nContent-Disposition: form-data\r\n\r\nhalf", FORM, 400, "before its last boundary"),
        (b"--cut\r\nX: " + b"x" * 9000, FORM, 400, "header"),
        (b"", "multipart/form-data", 400, "boundary"),
        (b"x" * 512, "application/x-tar", 400, "header can't be read"),
        (b"\0" * 1024, "application/x-tar", 400, "no photos"),
        (b"{}", "application/json", 415, "application/json"),
    ],
)
def test_a_batch_that_is_none_is_refused(server: Running, body: bytes, kind: str, status: int, words: str) -> None:
    answer = server.post("/v1/predict/batch", body, Content_Type=kind)
    assert answer.status == status, answer.body
    assert words in answer.json["reason"]


def test_a_batch_that_is_cut_off_keeps_the_records_before_and_says_so(server: Running, portrait: bytes) -> None:
    body = form({"a.jpg": portrait, "b.jpg": portrait})
    answer = server.post("/v1/predict/batch", body[:-200], Content_Type=FORM)
    assert [line["status"] for line in answer.lines] == ["ok", "unreadable"]
    assert "before its last boundary, after 1 photos" in answer.lines[-1]["error"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?larges=true", "did you mean `largest`?"),
        ("?path=/etc/passwd", "there are: largest"),
        ("?url=http://example.org/a.jpg", "there are: largest"),
        ("?largest=yes", "use true or false"),
        ("?largest=true&largest=true", ""),
        ("?min_face=-1", "use pixels"),
        ("?min_face=1e3", "use pixels"),
    ],
)
def test_a_wrong_query_is_refused_with_a_hint(server: Running, portrait: bytes, query: str, words: str) -> None:
    answer = server.predict(portrait, query)
    assert (answer.status, answer.json["error"]) == (400, "bad_request")
    assert words in answer.json["hint"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "unreadable"),
        (b"no picture at all", 415, "not_a_picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", 415, "not_a_picture"),
        (PORTRAIT.read_bytes()[:3000], 400, "unreadable"),
        (encoded(Image.new("RGB", (9, 9)), "TIFF"), 415, "not_a_picture"),
        (encoded(Image.new("RGB", (9, 9)), "PPM"), 415, "not_a_picture"),
    ],
)
def test_what_is_no_photo_is_refused_with_a_reason(server: Running, body: bytes, status: int, code: str) -> None:
    answer = server.predict(body)
    assert (answer.status, answer.json["error"]) == (status, code)
    assert answer.json["reason"]


def test_unknown_paths_and_methods_are_json_errors(server: Running) -> None:
    assert (server.get("/v2").status, server.get("/v2").json["error"]) == (404, "not_found")
    answer = server.get("/v1/predict")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert server.post("/v1/predict/", b"").status == 404


def test_the_server_tells_that_it_lives_and_is_ready(server: Running) -> None:
    assert server.get("/healthz").json == {"status": "ok"}
    assert server.get("/readyz").json == {"status": "ready"}
    head = server.request("HEAD", "/readyz")
    assert (head.status, head.body) == (200, b"")


def test_metrics_count_requests_photos_and_faces(server: Running, couple: bytes) -> None:
    before, answer, after = samples(server), server.predict(couple), samples(server)
    assert answer.status == 200

    def change(name: str) -> float:
        return after[name] - before.get(name, 0)

    assert change('agecli_requests_total{path="/v1/predict",status="200"}') == 1
    assert change('agecli_request_seconds_count{path="/v1/predict"}') == 1
    assert change('agecli_photos_total{status="ok"}') == 1
    assert change("agecli_faces_total") == change("agecli_batch_faces_sum") == 2
    assert after['agecli_request_seconds_bucket{path="/v1/predict",le="+Inf"}'] >= 1
    assert (after["agecli_ready"], after["agecli_queue_photos"]) == (1, 0)
