"""Figures that explain: what they draw is what the model has."""

from __future__ import annotations

import numpy as np

from agecli.core.ages import AgeGrid
from agecli.forest.forests import Forest
from agecli.model.bundled import bundled
from agecli.model.checkpoint import load_checkpoint
from agecli.reports.figure_data import Example, read_trees
from agecli.reports.figures.sketches import faces, forest_sketch, label_distribution
from agecli.training.run_folder import find_source


def test_a_label_distribution_names_its_age_and_its_std() -> None:
    svg = label_distribution(20.0, 2.0, AgeGrid()).decode()
    assert "true age 20, α = 2 years" in svg
    assert label_distribution(20.0, 2.0, AgeGrid()).decode() == svg
    assert label_distribution(20.0, 0.0, AgeGrid()).startswith(b"<?xml")


def test_the_sketch_of_a_forest_is_that_of_the_trained_model() -> None:
    trees, units = read_trees(find_source(bundled(".safetensors"), None), 2)
    model = load_checkpoint(bundled(".safetensors")).model
    assert isinstance(model.forest, Forest)
    assert [tree.phi.tolist() for tree in trees] == model.forest.phi[:2].tolist()
    assert units == model.f.out_features
    for tree in trees:
        assert len(set(tree.phi.tolist())) == len(tree.phi) == len(tree.pmf) - 1  # N = L - 1 units, none of them twice
        assert np.allclose(tree.pmf.sum(1), 1, atol=1e-5)
        assert np.allclose(tree.means, tree.pmf @ AgeGrid(*tree.ages).years)
    svg = forest_sketch(trees, units).decode()
    assert f"f: {units} units" in svg
    assert trees[1].name in svg


def test_faces_have_their_true_and_predicted_ages() -> None:
    picture = np.zeros((8, 8, 3), dtype=np.uint8)
    svg = faces([Example(picture, 3.0, 4.6), Example(picture, 40.0, 38.2)]).decode()
    assert "3 → 5" in svg
    assert "40 → 38" in svg
