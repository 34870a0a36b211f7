"""A drawing never takes the place of another file, and no two photos share one."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from agecli.core.records import Record
from agecli.prediction.drawing import Drawer
from agecli.prediction.drawing_files import drawing_path


def face(source: str, time: float | None = None) -> Record:
    return Record(source, face=0, age=34.4, low=27.0, high=43.0, box=(10, 10, 30, 30), time=time)


def photo(name: str) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (80, 60), "white").save(name)
    return name


def draw_all(*names: str, folder: str = "out") -> None:
    drawer = Drawer(Path(folder), "1s")
    list(drawer(face(name) for name in names))
    assert drawer.failed == 0


def files(folder: str = "out") -> set[str]:
    return {path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_drawings_keep_the_names_and_folders_of_their_photos(tmp_path: Path) -> None:
    assert drawing_path(tmp_path, face("x/y.png")) == tmp_path / "x/y.png"
    assert drawing_path(tmp_path, face("../x/y.bmp")) == tmp_path / "_/x/y.bmp.jpg"
    assert drawing_path(tmp_path, face("/x/y.jpg")) == tmp_path / "x/y.jpg"
    assert drawing_path(tmp_path, face("v.mp4", time=61.5)) == tmp_path / "v.mp4"
    assert drawing_path(tmp_path, face("x/v.avi", time=61.5)) == tmp_path / "x/v.avi.mp4"


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".JPEG", ".bmp"])
def test_only_a_drawing_of_the_same_photo_is_replaced(suffix: str) -> None:
    draw_all(photo(f"a{suffix}"), photo(f"b{suffix}"))
    first = files()
    draw_all(f"a{suffix}", f"b{suffix}")
    assert files() == first
    assert len(first) == 2
    own = Path("out", next(name for name in first if name.startswith("a")))
    own.write_bytes(b"a photo of mine")
    draw_all(f"a{suffix}", f"b{suffix}")
    assert own.read_bytes() == b"a photo of mine"
    assert len(files()) == 3


def test_two_photos_never_share_a_drawing(tmp_path: Path) -> None:
    names = [photo("a.bmp"), photo("a.bmp.jpg"), photo("x/IMG_1.jpg"), photo("_/x/IMG_1.jpg")]
    names += [f"../{tmp_path.name}/x/../x/IMG_1.jpg", str(tmp_path / "x/IMG_1.jpg")]
    draw_all(*names)
    assert {"a.bmp.jpg", "a.bmp~2.jpg", "x/IMG_1.jpg", "_/x/IMG_1.jpg"} <= files()
    assert len(files()) == len(names)
    before = files()
    draw_all(*reversed(names))
    assert files() == before


def test_the_same_name_in_another_folder_is_another_photo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        Path(tmp_path, folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        draw_all(photo("IMG_1.jpg"), folder=str(tmp_path / "out"))
    assert files(str(tmp_path / "out")) == {"IMG_1.jpg", "IMG_1~2.jpg"}


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "album").mkdir()
    precious = tmp_path / "album/a.jpg"
    precious.write_bytes(b"precious")
    (tmp_path / "out/a.jpg").symlink_to(precious)
    (tmp_path / "out/sub").symlink_to(tmp_path / "album")
    drawer = Drawer(Path("out"), "1s")
    list(drawer([face(photo("a.jpg")), face(photo("sub/a.jpg"))]))
    assert drawer.failed == 1  # the folder that leads out
    assert precious.read_bytes() == b"precious"
    assert [path.name for path in (tmp_path / "album").iterdir()] == ["a.jpg"]
    assert Path("out/a~2.jpg").is_file()


def test_a_folder_in_the_way_is_stepped_around() -> None:
    Path("out/a.jpg").mkdir(parents=True)
    draw_all(photo("a.jpg"))
    assert files() == {"a~2.jpg"}
