"""Copies of a picture are found whatever was done to them; pictures that only look alike are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps
from skimage import data

from agecli.datasets.duplicates import DisjointSets, Duplicates, Link, find_duplicates
from agecli.datasets.perceptual_hash import small_grey

Edit = Callable[[Image.Image], Image.Image]
EDITS: dict[str, Edit] = {
    "nothing": lambda image: image,
    "smaller": lambda image: image.resize((90, 90)),
    "larger": lambda image: image.resize((500, 480)),
    "brighter": lambda image: ImageEnhance.Brightness(image).enhance(1.15),
    "flatter": lambda image: ImageEnhance.Contrast(image).enhance(0.7),
    "grey": lambda image: image.convert("L"),
    "cropped": lambda image: image.crop((3, 2, image.width - 2, image.height - 4)),
    "turned": lambda image: image.rotate(1.5, Image.Resampling.BICUBIC).crop((4, 4, image.width - 4, image.height - 4)),
}


@pytest.fixture(scope="module")
def portrait() -> Image.Image:
    """The face in NASA's portrait of Eileen Collins."""
    return photo("astronaut", (140, 0, 340, 200))


def photo(name: str, box: tuple[int, int, int, int]) -> Image.Image:
    pixels = getattr(data, name)()
    return Image.fromarray(np.asarray(pixels, np.uint8)).convert("RGB").crop(box)


def found(folder: Path, workers: int = 1) -> set[tuple[str, str, str]]:
    names = sorted(path.name for path in folder.iterdir())
    return {(link.one, link.two, link.kind) for link in find_duplicates(folder, names, workers=workers).links}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("mirrored", [False, True])
def test_an_edited_copy_is_found(tmp_path: Path, portrait: Image.Image, edit: str, mirrored: bool) -> None:
    portrait.save(tmp_path / "a.png")
    copy = EDITS[edit](portrait)
    (ImageOps.mirror(copy) if mirrored else copy).save(tmp_path / "b.jpg", quality=60)
    assert found(tmp_path) == {("a.png", "b.jpg", "mirrored" if mirrored else "near")}


def test_different_pictures_are_not_copies(tmp_path: Path, toy: Path) -> None:
    """Drawn faces share their outlines with many others; and different parts of one photo are different pictures."""
    for name in ("astronaut", "camera", "chelsea", "coffee"):
        for left, top in ((0, 0), (60, 30), (100, 100)):
            photo(name, (left, top, left + 180, top + 180)).save(tmp_path / f"{name}-{left}.png")
    assert found(tmp_path) == set()
    assert found(toy / "images") == set()


def test_copies_of_copies_are_one_group_with_one_link_less(tmp_path: Path, portrait: Image.Image) -> None:
    for quality in (95, 80, 65, 50):
        portrait.save(tmp_path / f"{quality}.jpg", quality=quality)
    (tmp_path / "same.jpg").write_bytes((tmp_path / "80.jpg").read_bytes())
    names = [path.name for path in tmp_path.iterdir()]
    photo("camera", (100, 50, 300, 250)).save(tmp_path / "other.png")
    result = find_duplicates(tmp_path, [*names, "other.png"])
    assert result.groups() == [sorted(names)]
    assert len(result.links) == len(names) - 1
    assert Link("80.jpg", "same.jpg", "identical") in result.links


def test_flat_pictures_are_copies_only_if_their_files_are(tmp_path: Path) -> None:
    Image.new("RGB", (80, 80), "white").save(tmp_path / "a.png")
    Image.new("RGB", (80, 80), "white").save(tmp_path / "b.png")
    Image.new("RGB", (80, 80), "grey").save(tmp_path / "c.png")
    assert found(tmp_path) == {("a.png", "b.png", "identical")}


def test_groups_join_whatever_the_order_of_links() -> None:
    links = [Link("c", "d", "near"), Link("e", "f", "near"), Link("a", "c", "near"), Link("d", "b", "mirrored")]
    for order in (links, links[::-1]):
        assert Duplicates(tuple(order), {}).groups() == [["a", "b", "c", "d"], ["e", "f"]]


@given(pairs=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")), max_size=20))
def test_a_merge_says_whether_two_sets_became_one(pairs: list[tuple[str, str]]) -> None:
    sets, groups = DisjointSets(), {name: {name} for name in "abcdefgh"}
    for one, two in pairs:
        assert sets.merge(one, two) == (groups[one] is not groups[two])
        union = groups[one] | groups[two]
        groups.update(dict.fromkeys(union, union))
    assert all(sets.root(name) == min(group) for name, group in groups.items())


def test_photos_that_cannot_be_read_come_with_a_reason(tmp_path: Path, portrait: Image.Image) -> None:
    portrait.save(tmp_path / "good.jpg")
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "good.jpg").read_bytes()[:2000])
    (tmp_path / "text.jpg").write_text("no picture")
    names = ["good.jpg", "cut.jpg", "text.jpg", "absent.jpg"]
    reasons = find_duplicates(tmp_path, names).unreadable
    assert sorted(reasons) == ["absent.jpg", "cut.jpg", "text.jpg"]
    assert reasons["absent.jpg"] == "there is no such file"
    assert "damaged" in reasons["cut.jpg"]


def test_a_photo_lying_on_its_side_is_seen_upright(tmp_path: Path, portrait: Image.Image) -> None:
    portrait.save(tmp_path / "upright.jpg", quality=90)
    turned = Image.Exif()
    turned[0x0112] = 6  # to be shown turned by 90 degrees clockwise
    portrait.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.jpg", quality=90, exif=turned)
    assert np.abs(small_grey(tmp_path / "upright.jpg") - small_grey(tmp_path / "turned.jpg")).mean() < 3
    assert found(tmp_path) == {("turned.jpg", "upright.jpg", "near")}


def test_two_workers_find_what_one_finds(tmp_path: Path, portrait: Image.Image) -> None:
    for number, edit in enumerate(EDITS.values()):
        copy = edit(portrait)
        (ImageOps.mirror(copy) if number % 2 else copy).save(tmp_path / f"{number}.jpg")
    photo("chelsea", (100, 50, 300, 250)).save(tmp_path / "cat.png")
    (tmp_path / "text.jpg").write_text("no picture")
    seen: dict[str, list[int]] = {}

    def progress(what: str, done: int, total: int) -> None:
        seen.setdefault(what, []).append(done)
        assert done <= total

    names = [path.name for path in tmp_path.iterdir()]
    assert find_duplicates(tmp_path, names) == find_duplicates(tmp_path, names, workers=2, progress=progress)
    assert seen["photos"] == list(range(1, len(names) + 1))
    assert seen["pairs"] == sorted(seen["pairs"])
