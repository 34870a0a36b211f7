"""Every table and figure of the paper: the commands that docs/results.md lists, each run on cartoon faces."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest

from agecli.core.files import read_csv
from tests.conftest import invoke

PAGE = Path(__file__).parents[2] / "docs" / "results.md"
LISTED = PAGE.read_text(encoding="utf-8").partition("## Every table and figure of the paper")[2]
COMMANDS: list[str] = re.findall(r"`(agecli [^`]+)`", LISTED)
SMALL = (  # instead of the paper's preset, whose network is VGG-16
    *("--weights", "none", "--freeze", "--batch-size", "8", "--iterations", "4"),
    *("--set", "data.size=32", "--set", "forest.update_every=2", "--set", "forest.depth=3"),
)
VARIED = {"depth": ("forest.depth=3",), "trees": (), "alpha": ()}  # settings of SMALL that a study varies itself


@pytest.fixture(scope="module")
def place(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cartoon faces that have all that the paper's protocols go by."""
    folder = tmp_path_factory.mktemp("paper")
    shutil.copytree(toy, folder / "faces")
    table = pd.read_csv(folder / "faces/labels.csv", dtype=str)
    people = table["subject"].astype(int)
    table["rank"] = (people % 6 + 1).astype(str)  # CACD: 1 and 2 select, 3 to 5 test
    table["race"] = people.map(lambda person: "WB"[person % 2])
    table["sex"] = people.map(lambda person: "MF"[person // 2 % 2])
    table.to_csv(folder / "faces/labels.csv", index=False)
    return folder


def studied(command: str, place: Path) -> list[str]:
    """A listed command on the cartoon faces, with few iterations."""
    words = shlex.split(command)[1:]
    kept: list[str] = []
    while words:
        word = words.pop(0)
        if word in ("--data", "--preset", "--iterations"):
            words.pop(0)
        elif word == "--setup" and words[0] == "I":  # it takes 5,475 faces
            words.pop(0)
            kept += ["--setup", "II", "--folds", "1"]
        else:
            kept.append(word)
    name = kept[1]
    small = list(SMALL)
    for setting in VARIED.get(name, ()):
        at = small.index(setting)
        del small[at - 1 : at + 1]
    if "--setup" not in kept and name != "cacd":
        small += ["--setup", "subject", "--folds", "1"]
    return [
        *kept,
        "--data",
        str(place / "faces"),
        *small,
        "--out",
        str(place / "-".join([*kept[1:]]).replace("/", "-")),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("command", [command for command in COMMANDS if " study " in command])
def test_the_command_of_a_table_writes_it(command: str, place: Path) -> None:
    words = studied(command, place)
    done = invoke(*words)
    assert done.exit_code == 0, done.stderr
    out = Path(words[-1])
    rows = read_csv(out / "study.csv")
    assert rows
    assert all(row["entropy" if words[1] == "entropy" else "mae"] for row in rows if row["cell"])
    assert (out / f"{words[1]}.png").stat().st_size > 1000
    if "--forests" in words:
        assert sum(row["label"].startswith("DRF, assignment") for row in rows) == 50


@pytest.mark.slow
def test_the_command_of_a_figure_draws_it(place: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    small = [word for word in SMALL if word != "--freeze"]
    done = invoke("train", "--data", place / "faces", "--setup", "subject", "--folds", "1", *small, "--out", run)
    assert done.exit_code == 0, done.stderr
    drawn = [command for command in COMMANDS if " plot " in command]
    assert len(drawn) == 4
    for number, command in enumerate(drawn):
        words = [str(run) if word == "RUN" or "/runs/" in word else word for word in shlex.split(command)[1:]]
        figure = tmp_path / f"{number}.png"
        done = invoke(*words, "-o", figure)
        assert done.exit_code == 0, done.stderr
        assert figure.stat().st_size > 1000


def test_the_page_lists_all_of_the_papers_tables_and_figures() -> None:
    for item in [f"Table {number}" for number in (4, 5, 6)] + [f"Fig. {number}" for number in range(1, 9)]:
        assert item in LISTED
    assert "Tables 1 to 3" in LISTED
    assert {shlex.split(command)[2] for command in COMMANDS if " study " in command} == {
        *("benchmark", "cacd", "ablation", "entropy", "trees", "depth", "alpha", "phi")
    }
