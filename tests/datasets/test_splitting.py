"""Protocols through the real command line, on a tree of MORPH's size, and on FG-NET's names."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import agecli
from agecli.core.ages import AgeGrid
from agecli.core.errors import InputError, MissingError
from agecli.core.files import read_csv
from agecli.datasets.manifest import read_manifest
from tests.conftest import Cli
from tests.datasets import trees


@pytest.fixture(scope="module")
def morph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("morph")
    assert len(trees.morph(folder, trees.morph_rows())) == 55_134
    return folder


def described(done: Any) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_setup_ii_of_morph_is_80_20_to_the_image_and_says_what_leaks(cli: Cli, morph: Path, tmp_path: Path) -> None:
    rows = described(cli("split", morph, "--setup", "II", "--set", "data.val_share=0", "--set", "training.select=last"))
    assert [(row["part"], row["images"]) for row in rows] == [("train", 44_107), ("test", 11_027)] * 5
    assert all(row["leakage"] > 0.9 for row in rows if row["part"] == "test")
    assert rows[0]["Black"] + rows[1]["Black"] == 36_832 + 5_757
    assert rows[0]["M"] + rows[0]["F"] == 44_107
    written = read_csv(tmp_path / "splits.csv")
    assert Counter(row["part"] for row in written) == {"train": 5 * 44_107, "test": 5 * 11_027}
    assert len({row["manifest"] for row in written}) == 1


def test_setup_iii_of_morph_has_its_two_halves(cli: Cli, morph: Path, tmp_path: Path) -> None:
    rows = described(cli("split", morph, "--setup", "III"))
    assert [row["fold"] for row in rows if row["part"] == "train"] == [1, 2]
    parts: dict[str, set[str]] = {"1": set(), "2": set()}
    for row in read_csv(tmp_path / "splits.csv"):
        if row["part"] != "test":
            parts[row["fold"]].add(row["path"])
    assert [len(part) for part in parts.values()] == [10_530, 10_530]
    assert not parts["1"] & parts["2"]


def test_the_order_of_files_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees.morph(tmp_path / "m", trees.morph_rows({("B", "M"): 300, ("W", "F"): 200}))
    agecli.split(tmp_path / "m", setup="II", out=tmp_path / "one.csv")
    real = os.scandir

    class Shuffled(list[Any]):
        def __enter__(self) -> Any:
            return iter(self)

        def __exit__(self, *error: object) -> None: ...

    def shuffled(folder: Any) -> Any:
        entries = list(real(folder))
        return Shuffled(random.Random(1).sample(entries, len(entries)))

    monkeypatch.setattr(os, "scandir", shuffled)
    agecli.split(tmp_path / "m", setup="II", out=tmp_path / "two.csv")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    agecli.split(tmp_path / "m", setup="II", seed=1, out=tmp_path / "three.csv")
    assert (tmp_path / "one.csv").read_bytes() != (tmp_path / "three.csv").read_bytes()


def test_names_alone_can_not_carry_setup_iii(cli: Cli, tmp_path: Path) -> None:
    trees.morph(tmp_path / "m", trees.morph_rows({("B", "M"): 30}), table=False)
    done = cli("split", "m", "--setup", "III")
    assert done.returncode == 2
    assert "1285" in done.stderr
    assert "MORPH's own CSV" in done.stderr
    assert not (tmp_path / "splits.csv").exists()


def test_leave_one_person_out_tests_each_photo_once(cli: Cli, tmp_path: Path) -> None:
    names = {f"images/{s:03d}A{n:02d}.JPG" for s in range(1, 83) for n in range(13 if s <= 18 else 12)}
    assert len(names) == 1002
    trees.touch(tmp_path / "fgnet", names)
    rows = described(cli("split", "fgnet", "--setup", "lopo"))
    assert max(row["fold"] for row in rows) == 82
    assert all(row["leakage"] == 0 for row in rows if row["part"] == "test")
    tested = [row["path"] for row in read_csv(tmp_path / "splits.csv") if row["part"] == "test"]
    assert Counter(tested) == Counter(names)


def test_a_list_and_an_exclusion_by_path_name_or_stem(tmp_path: Path) -> None:
    data = tmp_path / "data"
    trees.touch(data, [f"images/{s:03d}A{age:02d}.JPG" for s in range(10) for age in range(10, 20)])
    (tmp_path / "list.txt").write_text("".join(f"00{s}A{age}.JPG\n" for s in range(5) for age in range(10, 20)))
    rows = agecli.split(data, setup="lopo", only=tmp_path / "list.txt", out=None)
    assert max(row["fold"] for row in rows) == 5
    (tmp_path / "out.csv").write_text("path,problem\nimages/000A10.JPG,x\n001A11,x\nimages/000A10.JPG,y\n")
    rows = agecli.split(data, setup="random", exclude=tmp_path / "out.csv", out=None)
    assert sum(row["images"] for row in rows) == 98
    (tmp_path / "out.csv").write_text("images/000A10.JPG\n")  # one line without a heading
    assert sum(row["images"] for row in agecli.split(data, exclude=tmp_path / "out.csv", out=None)) == 99
    (tmp_path / "out.csv").write_text("path,problem\n")
    assert sum(row["images"] for row in agecli.split(data, exclude=tmp_path / "out.csv", out=None)) == 100
    (tmp_path / "out.csv").write_text("path\nelsewhere/x.jpg\n")
    with pytest.raises(InputError, match="none of the 1 names"):
        agecli.split(data, exclude=tmp_path / "out.csv", out=None)
    (tmp_path / "list.txt").write_text("\n")
    with pytest.raises(InputError, match="names no photo"):
        agecli.split(data, only=tmp_path / "list.txt", out=None)
    with pytest.raises(MissingError, match=r"no\.txt"):
        agecli.split(data, only=tmp_path / "no.txt", out=None)


def test_a_whole_path_means_that_photo_alone(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("path,age\n1.jpg,20\na/1.jpg,30\nb/1.jpg,40\n")
    assert [s.path for s in read_manifest(tmp_path, AgeGrid(), exclude=["1.jpg"]).samples] == ["a/1.jpg", "b/1.jpg"]
    assert [s.path for s in read_manifest(tmp_path, AgeGrid(), only=["1"]).samples] == ["1.jpg", "a/1.jpg", "b/1.jpg"]


def test_the_papers_preset_holds_nothing_out(tmp_path: Path) -> None:
    trees.touch(tmp_path, [f"{s:03d}A{age:02d}.JPG" for s in range(10) for age in range(10, 20)])
    rows = agecli.split(tmp_path, setup="II", preset="paper", out=None)
    assert [(row["part"], row["images"]) for row in rows] == [("train", 80), ("test", 20)] * 5


def test_a_manifest_is_found_by_the_photos_its_faces_came_from(tmp_path: Path) -> None:
    text = "path,age,source\nimages/a.png,20,raw/a.JPG\nimages/b.png,30,raw/b.JPG\n"
    (tmp_path / "manifest.csv").write_text(text)
    assert len(read_manifest(tmp_path, AgeGrid(), exclude=["raw/a.JPG"]).samples) == 1
    assert len(read_manifest(tmp_path, AgeGrid(), only=["b.JPG"]).samples) == 1
