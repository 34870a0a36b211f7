"""Inspection: the laws of leaf usage on forests made by hand, then the command on a trained run."""

from __future__ import annotations

import csv
import dataclasses
import json
import logging
import math
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import agecli
from agecli.core.ages import AgeGrid
from agecli.core.config import Config, replace
from agecli.core.errors import InputError, MissingError
from agecli.core.files import read_csv
from agecli.evaluation import leaf_statistics as statistics
from agecli.evaluation.inspect import inspect
from agecli.evaluation.leaf_statistics import leaf_statistics, node_reach, route, tree_statistics, unit_use
from agecli.forest.forests import CategoricalForest, Forest, GaussianForest
from agecli.forest.gaussian import Gaussians
from agecli.model.checkpoint import save_checkpoint
from agecli.model.network import build_model
from tests.conftest import Cli, invoke
from tests.training.test_train import TINY

K, N, L, M = 2, 7, 8, 10
FLOOR = 0.5


def gaussian_forest(phi: Tensor | None = None) -> GaussianForest:
    """Two trees of eight leaves around the ages 10, 20, … 80, each 3 years wide."""
    leaves = Gaussians((torch.arange(L) * 10.0 + 10).repeat(K, 1), torch.full((K, L), 9.0))
    phi = torch.stack([torch.arange(N), torch.arange(N) + M - N]) if phi is None else phi
    return GaussianForest(phi, leaves, AgeGrid(), FLOOR)


def categorical_forest() -> CategoricalForest:
    forest = gaussian_forest()
    return CategoricalForest(forest.phi, forest.leaf_pmf().float(), forest.grid, alpha=2.0, pseudo_count=0.01)


FORESTS = (gaussian_forest, categorical_forest)


@pytest.mark.parametrize("build", FORESTS)
def test_the_effective_numbers_of_a_tree_sum_to_the_faces(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    units = 5 * torch.randn(100, M, generator=torch.Generator().manual_seed(0))
    whole = leaf_statistics(build(), route(build(), units))
    monkeypatch.setattr(statistics, "BATCH", 33)  # batches of any size give the same
    parts = leaf_statistics(build(), route(build(), units))
    for leaves in (whole, parts):
        for tree in range(1, K + 1):
            mine = [leaf for leaf in leaves if leaf.tree == tree]
            assert len(mine) == L
            assert sum(leaf.faces or 0 for leaf in mine) == pytest.approx(100)
            assert sum(leaf.share or 0 for leaf in mine) == pytest.approx(1)
    assert [leaf.faces for leaf in whole] == pytest.approx([leaf.faces for leaf in parts])


def test_without_preferences_every_leaf_is_equally_likely() -> None:
    forest = gaussian_forest()
    for tree in tree_statistics(forest, route(forest, torch.zeros(5, M))):
        assert tree.entropy == pytest.approx(math.log(L))
        assert tree.effective_leaves == pytest.approx(L)
        assert tree.largest == pytest.approx(1 / L)
        assert tree.hard == 0
        assert tree.dead == tree.collapsed == 0


def test_sharp_splits_send_a_face_to_one_leaf() -> None:
    forest = gaussian_forest()
    for tree in tree_statistics(forest, route(forest, torch.full((5, M), 50.0))):
        assert tree.entropy == pytest.approx(0, abs=1e-6)
        assert tree.effective_leaves == pytest.approx(1)
        assert tree.largest == tree.hard == pytest.approx(1)
        assert tree.dead == L - 1


def test_a_split_that_never_goes_right_kills_the_leaves_on_its_right() -> None:
    phi = torch.stack([torch.arange(N), torch.tensor([9, 8, 7, 6, 5, 4, 3])])
    units = torch.zeros(20, M)
    units[:, 1] = 50.0  # the left child of the root of tree 1, and no node of tree 2
    forest = gaussian_forest(phi)
    routing = route(forest, units)
    leaves, trees = leaf_statistics(forest, routing), tree_statistics(forest, routing)
    assert [(leaf.tree, leaf.leaf) for leaf in leaves if leaf.dead] == [(1, 3), (1, 4)]
    assert [tree.dead for tree in trees] == [2, 0]
    assert trees[0].hard == pytest.approx(1 / 2 / 3)  # half of the faces meet it, as one of their three decisions
    assert trees[1].hard == 0


def test_a_hard_decision_counts_as_much_as_faces_reach_it() -> None:
    units = torch.zeros(1, M)
    units[:, 0] = 50.0
    units[:, 2] = -50.0  # nobody comes to the root's right child
    forest = gaussian_forest(torch.arange(N).repeat(K, 1))
    assert tree_statistics(forest, route(forest, units))[0].hard == pytest.approx(1 / 3)


def test_all_faces_reach_the_root_and_a_node_as_often_as_its_children() -> None:
    p = torch.rand(3, K, L, generator=torch.Generator().manual_seed(0)).softmax(-1)
    reach = node_reach(p)
    assert reach.shape == (3, K, N)
    assert torch.allclose(reach[..., 0], torch.ones(3, K))
    for node in range((N - 1) // 2):
        assert torch.allclose(reach[..., node], reach[..., 2 * node + 1] + reach[..., 2 * node + 2])


def test_a_leaf_at_the_variance_floor_is_collapsed() -> None:
    forest = gaussian_forest()
    forest.floor = 0.36  # which float32 does not know exactly
    forest.variance[1, 4] = 0.36
    found = collapsed(forest)
    assert found == [(2, 5)]
    leaf = leaf_statistics(forest, None)[L + 4]
    assert leaf.density_std == pytest.approx(0.6)
    assert leaf.mean == pytest.approx(50)


def test_a_leaf_that_knows_one_year_is_collapsed() -> None:
    forest = categorical_forest()
    for share, expected in ((0.985, []), (0.995, [(1, 3)])):
        pi = torch.full((121,), (1 - share) / 120)
        pi[33] = share
        forest.log_pi[0, 2] = pi.log()
        assert collapsed(forest) == expected
    leaf = leaf_statistics(forest, None)[2]
    assert leaf.peak == pytest.approx(0.995)
    assert leaf.density_std is None


def collapsed(forest: Forest) -> list[tuple[int, int]]:
    leaves = leaf_statistics(forest, None)
    assert sum(tree.collapsed for tree in tree_statistics(forest, None)) == sum(leaf.collapsed for leaf in leaves)
    return [(leaf.tree, leaf.leaf) for leaf in leaves if leaf.collapsed]


def test_what_needs_faces_is_not_invented_without_them() -> None:
    forest = gaussian_forest()
    leaf, tree = leaf_statistics(forest, None)[0], tree_statistics(forest, None)[0]
    assert (leaf.faces, leaf.share, leaf.dead) == (None, None, None)
    assert (tree.dead, tree.effective_leaves, tree.entropy, tree.largest, tree.hard) == (None,) * 5
    assert leaf.mean == pytest.approx(10, abs=0.01)
    assert leaf.std == pytest.approx(3, abs=0.1)


def test_units_that_trees_share_are_counted() -> None:
    use = unit_use(torch.tensor([[0, 1, 2], [2, 1, 5], [1, 7, 6]]), 10)
    assert use.units == 10
    assert use.used_by == (4, 4, 1, 1)  # 1 by all three trees, 2 by two of them
    assert use.shared == ((3, 2, 1), (2, 3, 1), (1, 1, 3))


@pytest.fixture(scope="module")
def run(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "a"
    agecli.train(toy, out=folder, setup="subject", folds="2-3", **TINY)
    return folder


def test_a_run_is_inspected_on_the_faces_it_learned_from(run: Path) -> None:
    found = inspect(run)
    assert found.checkpoint == run / "fold-2/best.safetensors"
    trained = Counter((row["fold"], row["part"]) for row in read_csv(run / "splits.csv"))["2", "train"]
    assert found.faces == trained
    assert (len(found.trees), len(found.leaves)) == (5, 160)
    same = inspect(found.checkpoint)
    assert dataclasses.replace(same, source="") == dataclasses.replace(found, source="")
    for tree in found.trees:
        assert sum(leaf.faces or 0 for leaf in found.leaves if leaf.tree == tree.tree) == pytest.approx(trained)
        assert 0 < (tree.entropy or 0) <= math.log(32) + 1e-6
        assert 1 <= (tree.effective_leaves or 0) <= 32 + 1e-6


def test_a_limit_draws_the_same_faces_each_time(run: Path, toy: Path) -> None:
    one, two = inspect(run, data=toy, limit=7), inspect(run, data=toy, limit=7)
    assert one == two
    assert one.faces == 7
    assert inspect(run, data=toy).faces == 120


def test_the_command_prints_trees_units_and_leaves(cli: Cli, run: Path) -> None:
    done = cli("inspect", run, "--leaves", "--format", "table")
    assert done.returncode == 0, done.stderr
    assert "inspecting" in done.stderr
    assert "fold-2/best.safetensors" in done.stderr
    assert "the training part of fold 2" in done.stdout
    for words in (
        "tree  leaves  dead  collapsed  effective leaves  H, of 3.47",
        "all      160",
        "by none",
        "all leaves",
    ):
        assert words in done.stdout
    assert len(done.stdout.splitlines()) > 160


def test_of_many_leaves_in_trouble_a_table_shows_some_and_says_what_that_means() -> None:
    done = invoke("inspect", "--format", "table", "-q")
    assert done.exit_code == 0, done.output
    assert "Collapsed: at the smallest" in done.stdout
    assert re.search(r"leaves that are collapsed, 10 of \d+ \(--leaves shows every leaf\)", done.stdout)
    assert len(done.stdout.splitlines()) < 50


def test_programs_get_a_row_for_each_leaf(cli: Cli, run: Path, toy: Path, tmp_path: Path) -> None:
    done = cli("inspect", run / "fold-3/best.safetensors", "--data", toy, "-q")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["tree"], row["leaf"]) for row in rows] == [(k, n) for k in range(1, 6) for n in range(1, 33)]
    assert sum(row["faces"] for row in rows) == pytest.approx(5 * 120, abs=0.01)
    assert (
        invoke("inspect", run / "fold-3/best.safetensors", "--data", toy, "-o", tmp_path / "leaves.csv").exit_code == 0
    )
    table = list(csv.DictReader((tmp_path / "leaves.csv").open()))
    assert [float(row["faces"]) for row in table] == [row["faces"] for row in rows]


def test_a_run_whose_faces_are_gone_still_shows_its_leaves(
    run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("agecli"), "propagate", True)  # a command in this process may have stopped it
    shutil.copytree(run, tmp_path / "run")
    about = json.loads((tmp_path / "run/environment.json").read_text())
    (tmp_path / "run/environment.json").write_text(json.dumps({**about, "data": str(tmp_path / "gone")}))
    with caplog.at_level(logging.WARNING, "agecli"):
        found = inspect(tmp_path / "run")
    assert found.faces == 0
    assert found.leaves[0].dead is None
    assert "there is no data folder" in caplog.text
    assert "--data DIR" in caplog.text


def test_a_lost_picture_is_left_out_with_a_warning(run: Path, toy: Path, tmp_path: Path) -> None:
    data = tmp_path / "toy"
    shutil.copytree(toy, data)
    next((data / "images").iterdir()).write_text("no picture")
    done = invoke("inspect", run, "--data", data, "--format", "table")
    assert done.exit_code == 1
    assert f"119 faces: all of {data}" in done.output
    assert "1 picture(s) could not be read" in done.output
    for picture in (data / "images").iterdir():
        picture.write_text("no picture")
    with pytest.raises(InputError, match="could be read"):
        inspect(run, data=data)


def test_the_bundled_model_tells_what_it_can_without_faces(cli: Cli) -> None:
    done = cli("inspect", "--format", "table")
    assert done.returncode == 0, done.stderr
    assert "need faces" in done.stderr
    assert "--data DIR" in done.stderr
    assert "drf, 10 trees of 128 leaves" in done.stdout
    assert "dead" not in done.stdout
    assert len(inspect("default").leaves) == 1280


def test_a_missing_model_is_a_clear_error(run: Path, tmp_path: Path) -> None:
    done = invoke("inspect", "nothing.safetensors")
    assert done.exit_code == 3
    assert "there is no run or checkpoint nothing.safetensors" in done.output
    with pytest.raises(MissingError, match="is no run folder"):
        inspect(tmp_path)
    shutil.copytree(run, tmp_path / "begun", ignore=shutil.ignore_patterns("fold-*"))
    with pytest.raises(MissingError, match="is finished"):
        inspect(tmp_path / "begun")


def test_a_model_without_a_forest_has_nothing_to_inspect(tmp_path: Path) -> None:
    config = replace(Config(), {"model": "regression", "backbone.name": "timm:test_efficientnet", "data.size": 64})
    save_checkpoint(tmp_path / "m.safetensors", build_model(config), config, {})
    with pytest.raises(InputError, match="has no forest: it is a `regression` model"):
        inspect(tmp_path / "m.safetensors")
