"""EdgeNeXt rewritten for inference is the same function; its graph can have 16-bit weights and 8-bit layers."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from torch import nn

import agecli
from agecli.core.config import Config, replace
from agecli.core.errors import InputError
from agecli.model.checkpoint import load_checkpoint, save_checkpoint
from agecli.model.edgenext import FastEdgeNeXt, _Linear, _thin, is_edgenext
from agecli.model.network import AgeModel, build_model, start_leaves
from agecli.model.predictors import OnnxPredictor

SIZE = 64
SETTINGS = {
    "backbone.name": "timm:edgenext_xx_small",
    "backbone.stages": 3,
    "data.size": SIZE,
    "data.crop_share": 1.0,
    "forest.units_std": 0.5,
}


@pytest.fixture(scope="module")
def model() -> AgeModel:
    """A small EdgeNeXt with pooled stages, whose norms and layer scales are not trivial."""
    made = build_model(replace(Config(), SETTINGS))
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weights in made.backbone.parameters():
            if weights.ndim == 1:
                weights.add_(torch.randn(weights.shape, generator=draw) * 0.3)
    start_leaves(made.forest, torch.linspace(0, 90, 200), 0)
    return made.eval()


@pytest.fixture(scope="module")
def checkpoint(model: AgeModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("edgenext") / "model.safetensors"
    save_checkpoint(path, model, replace(Config(), SETTINGS), {})
    return path


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pictures with structure, so that they differ in their ages."""
    folder = tmp_path_factory.mktemp("faces")
    draw = np.random.default_rng(0)
    for number in range(24):
        coarse = Image.fromarray(draw.integers(0, 256, (6, 6, 3), dtype=np.uint8))
        coarse.resize((SIZE, SIZE), Image.Resampling.BICUBIC).save(folder / f"{number}.png")
    return folder


def test_it_gives_the_features_of_timms_network(model: AgeModel) -> None:
    assert is_edgenext(model.backbone)
    pixels = torch.randint(0, 256, (3, 3, SIZE, SIZE), generator=torch.Generator().manual_seed(1))
    fast = FastEdgeNeXt(model.backbone, model.colours.mean, model.colours.std, SIZE).eval()
    with torch.inference_mode():
        expected = model.extractor(pixels)
        assert torch.allclose(fast(pixels), expected, atol=1e-4 * float(expected.abs().max()))


def switch_off(block: Any) -> None:
    """Attention with weights of zero, and an MLP of rank one: as in the last block of EdgeFace-S."""
    with torch.no_grad():
        for weights in (*block.xca.parameters(), *block.norm_xca.parameters(), block.gamma_xca):
            weights.zero_()
        for layer in (block.mlp.fc1, block.mlp.fc2):
            layer.weight.copy_(torch.outer(layer.weight[:, 0], layer.weight[0]))


def test_what_is_switched_off_is_not_computed(model: AgeModel, tmp_path: Path) -> None:
    made, paths = copy.deepcopy(model), [tmp_path / "all.onnx", tmp_path / "off.onnx"]
    pixels = torch.randint(0, 256, (4, 3, SIZE, SIZE), generator=torch.Generator().manual_seed(1))
    network: Any = made.backbone.network
    for path in paths:
        save_checkpoint(path.with_suffix(".safetensors"), made, replace(Config(), SETTINGS), {})
        agecli.export(path.with_suffix(".safetensors"), out=path)
        switch_off(network.stages[-1].blocks[-1])
    with torch.inference_mode():
        expected = load_checkpoint(paths[1].with_suffix(".safetensors")).model.eval()(pixels).numpy()
    assert np.allclose(OnnxPredictor(paths[1]).pmf(pixels.numpy().astype(np.uint8)), expected, atol=1e-5)
    softmaxes, products = ([onnx_cost(path)[part] for path in paths] for part in (0, 1))
    assert softmaxes[1] == softmaxes[0] - 1
    assert products[1] < products[0]


def onnx_cost(path: Path) -> tuple[int, int]:
    """How many attentions a graph has, and how many weights its linear layers."""
    graph = onnx.load(str(path)).graph
    sizes = {tensor.name: math.prod(tensor.dims) for tensor in graph.initializer}
    linear = [node for node in graph.node if node.op_type in ("Gemm", "MatMul")]
    return sum(node.op_type == "Softmax" for node in graph.node), sum(sizes.get(node.input[1], 0) for node in linear)


def test_a_layer_of_full_rank_stays_as_it_is() -> None:
    weight = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))
    layer = _Linear(weight, torch.zeros(16))
    assert _thin(layer) is layer
    low = _Linear(weight[:, :1] @ weight[:1], torch.ones(16))
    assert isinstance(_thin(low), nn.Sequential)
    assert torch.allclose(_thin(low)(weight), low(weight), atol=1e-5)


def test_another_network_is_not_taken_for_it() -> None:
    assert not is_edgenext(build_model(replace(Config(), {"backbone.name": "resnet18"})).backbone)


def test_a_checkpoint_with_half_the_bits_gives_a_graph_with_half_the_bits(checkpoint: Path, tmp_path: Path) -> None:
    for out, source in (("whole.onnx", checkpoint), ("half.safetensors", checkpoint)):
        agecli.export(source, out=tmp_path / out)
    agecli.export(tmp_path / "half.safetensors", out=tmp_path / "half.onnx")
    assert (tmp_path / "half.onnx").stat().st_size < 0.6 * (tmp_path / "whole.onnx").stat().st_size


@pytest.mark.slow
def test_ages_in_8_bits_are_close_to_those_of_the_checkpoint(checkpoint: Path, faces: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.onnx"
    agecli.export(checkpoint, out=out, int8=faces)
    assert b"QGemm" in out.read_bytes()
    estimator = agecli.load(out)
    crops = np.stack([np.asarray(Image.open(path)) for path in sorted(faces.iterdir())])
    ages = np.array([record.age for record in estimator.predict_crops(crops)])
    pixels = torch.from_numpy(crops.transpose(0, 3, 1, 2).copy())
    with torch.inference_mode():
        expected = load_checkpoint(checkpoint).model(pixels).numpy() @ np.arange(121)
    assert np.abs(ages - expected).mean() < 0.1
    predictor = OnnxPredictor(out)
    alone = np.concatenate([predictor.pmf(face[None]) for face in pixels.numpy()])
    assert alone.tobytes() == predictor.pmf(pixels.numpy()).tobytes()
    agecli.export(checkpoint, out=tmp_path / "exact.onnx", int8=faces, tolerance=0)
    assert b"QGemm" not in (tmp_path / "exact.onnx").read_bytes()


def test_8_bits_need_faces_and_an_onnx_file(checkpoint: Path, faces: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no faces in"):
        agecli.export(checkpoint, out=tmp_path / "model.onnx", int8=tmp_path)
    with pytest.raises(InputError, match="cannot have 8-bit layers"):
        agecli.export(checkpoint, out=tmp_path / "model.safetensors", int8=faces)
    assert list(tmp_path.iterdir()) == []
