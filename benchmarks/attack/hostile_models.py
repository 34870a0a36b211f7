"""Hostile model files: ONNX graphs and checkpoints that claim, point to or compute what they should not.

Each maker writes one file and returns the arguments of the `agecli` command that reads it.
"""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from safetensors.torch import load_file, save_file

from agecli.core.config import Config, replace
from agecli.datasets.toy import draw_faces
from agecli.model.checkpoint import KIND, save_checkpoint
from agecli.model.network import build_model, start_leaves

Maker = Callable[[Path], list[object]]  # folder -> arguments of agecli
SIDE, AGES = 16, 121
SMALL = {"backbone.name": "timm:test_efficientnet", "data.size": 64, "forest.depth": 4, "forest.units": 16}
CARD: dict[str, Any] = {
    "format": 1,
    "version": "0",
    "picture": {"size": SIDE, "crop_share": 1.0, "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bilinear"},
    "grid": {"low": 0, "high": AGES - 1},
    "readout": "mean",
    "alignment": {"size": 256, "eye_distance": 0.3, "eye_height": 0.3},
    "calibration": {"faces": 99, "scale": 1.0, "by_age": [1.0] * 13, "by_prediction": [1.0] * 13, "coverage": 0.9},
}


def photo(folder: Path) -> Path:
    """A small picture to predict."""
    Image.new("RGB", (32, 32), "orange").save(folder / "face.jpg")
    return folder / "face.jpg"


def predict(folder: Path, model: Path) -> list[object]:
    """The command that reads a model."""
    return ["predict", photo(folder), "--no-detect", "--model", model, "--format", "jsonl"]


def graph(weights: Any = None, extra: tuple[Any, ...] = (), inputs: str = "pixels", ages: int = AGES) -> Any:
    """An ONNX model of agecli's form: pixels (B, 3, 16, 16) uint8 -> pmf (B, A).   weights: (1, A), what it returns."""
    values = np.full((1, ages), 1 / ages, np.float32) if weights is None else np.asarray(weights, np.float32)
    nodes = [
        helper.make_node("Cast", [inputs], ["x"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Mul", ["m", "zero"], ["z"]),
        helper.make_node("Unsqueeze", ["z", "one"], ["c"]),
        helper.make_node("Add", ["c", "w"], ["pmf"]),
    ]
    constants: dict[str, NDArray[Any]] = {"zero": np.zeros(1, np.float32), "one": np.ones(1, np.int64), "w": values}
    body = helper.make_graph(
        [*extra, *nodes],
        "g",
        [helper.make_tensor_value_info(inputs, TensorProto.UINT8, ["batch", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("pmf", TensorProto.FLOAT, ["batch", ages])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("evil", 1)]
    return helper.make_model(body, opset_imports=opsets, ir_version=8)


def write_onnx(folder: Path, model: Any, card: Any = CARD) -> list[object]:
    """Write a model with a card, which may be text that is no card."""
    if card is not None:
        helper.set_model_props(model, {"agecli": card if isinstance(card, str) else json.dumps(card)})
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return predict(folder, folder / "model.onnx")


def changed(section: str | None = None, **values: Any) -> dict[str, Any]:
    """The good card with some values changed."""
    return {**CARD, section: {**CARD[section], **values}} if section else {**CARD, **values}


def with_card(section: str | None = None, **values: Any) -> Maker:
    """A good graph with a bad card."""
    return lambda folder: write_onnx(folder, graph(), changed(section, **values))


def loop(folder: Path) -> list[object]:
    """A loop of 2^62 rounds."""
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), condition],
        [helper.make_tensor_value_info("d", TensorProto.BOOL, [])],
    )
    values = {"n": np.array(2**62), "t": np.array(True)}
    constants = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value)) for name, value in values.items()
    ]
    return write_onnx(folder, graph(extra=(*constants, helper.make_node("Loop", ["n", "t"], [], body=body))))


def branch(folder: Path) -> list[object]:
    """A condition with graphs of its own."""
    empty = helper.make_graph([], "e", [], [])
    return write_onnx(folder, graph(extra=(helper.make_node("If", ["one"], [], then_branch=empty, else_branch=empty),)))


def external(folder: Path) -> list[object]:
    """Weights that are read from a file of the user."""
    model = graph()
    tensor = model.graph.initializer[2]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../../../../../etc/passwd")
    return write_onnx(folder, model)


def function(folder: Path) -> list[object]:
    """Operators that are defined in the file."""
    model = graph()
    identity = helper.make_node("Identity", ["a"], ["b"])
    model.functions.append(helper.make_function("evil", "f", ["a"], ["b"], [identity], [helper.make_opsetid("", 17)]))
    return write_onnx(folder, model)


def raw(suffix: str, content: bytes, size: int = 0) -> Maker:
    """A file of these bytes, and a hole behind them up to `size`."""

    def make(folder: Path) -> list[object]:
        path = folder / f"model{suffix}"
        with path.open("wb") as file:
            file.write(content)
            file.truncate(max(size, len(content)))
        return predict(folder, path)

    return make


def half(folder: Path) -> list[object]:
    """A file that was cut short."""
    arguments = write_onnx(folder, graph())
    path = folder / "model.onnx"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return arguments


def checkpoint(
    header: Callable[[dict[str, Any]], object] = lambda h: None,
    tensors: Callable[[dict[str, torch.Tensor]], object] = lambda t: None,
    text: str | None = None,
) -> Maker:
    """A checkpoint whose header (or its text) and tensors were changed in place."""

    def make(folder: Path) -> list[object]:
        config = replace(Config(), SMALL)
        path = folder / "model.safetensors"
        model = build_model(config)
        start_leaves(model.forest, torch.arange(90.0), 5)
        save_checkpoint(path, model, config, {})
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            about = json.loads(file.read(length))["__metadata__"]
        state, content = load_file(path), json.loads(about["header"])
        header(content)
        tensors(state)
        save_file(state, path, {"kind": KIND, "format": "1", "header": text or json.dumps(content)})
        return predict(folder, path)

    return make


def setting(**values: Any) -> Maker:
    """A checkpoint with other settings; `__` stands for a dot."""
    return checkpoint(lambda header: header["config"].update({k.replace("__", "."): v for k, v in values.items()}))


def claims(shape: list[int], end: int, length: int | None = None) -> Maker:
    """A safetensors file whose header claims a tensor of this shape."""
    header = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}}).encode()
    return raw(".safetensors", struct.pack("<Q", length or len(header)) + header)


class Command:
    """What a pickle runs when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, ("hacked", "w"))


def weights_with_code(folder: Path) -> list[object]:
    """A torch file that runs a command when it is unpickled."""
    torch.save({"state_dict": Command()}, folder / "evil.pth")
    draw_faces(folder / "data", 60)
    train = ["train", "--data", folder / "data", "--backbone", SMALL["backbone.name"], "--batch-size", 8]
    return [*train, "--weights", folder / "evil.pth", "--out", folder / "run"]


DEEP = '{"a":' * 100_000
MODELS: dict[str, Maker] = {
    "onnx: empty": raw(".onnx", b""),
    "onnx: random bytes": raw(".onnx", np.random.default_rng(0).bytes(5000)),
    "onnx: cut in half": half,
    "onnx: 20 GB": raw(".onnx", b"", 20 << 30),
    "onnx: loop": loop,
    "onnx: branch": branch,
    "onnx: external data": external,
    "onnx: functions": function,
    "onnx: other operators": lambda folder: write_onnx(
        folder, graph(extra=(helper.make_node("Evil", [], ["e"], domain="evil"),))
    ),
    "onnx: no card": lambda folder: write_onnx(folder, graph(), None),
    "onnx: card no JSON": lambda folder: write_onnx(folder, graph(), "{"),
    "onnx: card a list": lambda folder: write_onnx(folder, graph(), "[]"),
    "onnx: card nested": lambda folder: write_onnx(folder, graph(), DEEP),
    "onnx: card of text": with_card(grid="0-120"),
    "onnx: newer format": with_card(format=10**9),
    "onnx: format no number": with_card(format="one"),
    "onnx: grid of 10^9 ages": with_card("grid", high=10**9),
    "onnx: grid upside down": with_card("grid", low=90, high=20),
    "onnx: grid of text": with_card("grid", high="old"),
    "onnx: picture of 10^6 pixels": with_card("picture", size=10**6),
    "onnx: picture of text": with_card("picture", size="large"),
    "onnx: crop share 1e-9": with_card("picture", crop_share=1e-9),
    "onnx: interpolation": with_card("picture", interpolation="__class__"),
    "onnx: alignment of 10^6 pixels": with_card("alignment", size=10**6),
    "onnx: readout": with_card(readout="exec"),
    "onnx: calibration NaN": with_card("calibration", scale=float("nan")),
    "onnx: calibration 1e400": lambda folder: write_onnx(
        folder, graph(), json.dumps(CARD).replace('"scale": 1.0', '"scale": 1e400')
    ),
    "onnx: calibration cut": with_card("calibration", by_age=[1.0]),
    "onnx: calibration of text": with_card("calibration", by_age="wide"),
    "onnx: returns NaN": lambda folder: write_onnx(folder, graph(np.full((1, AGES), np.nan))),
    "onnx: returns no probabilities": lambda folder: write_onnx(folder, graph(np.full((1, AGES), -7.0))),
    "onnx: returns other ages": lambda folder: write_onnx(folder, graph(ages=3)),
    "onnx: other input": lambda folder: write_onnx(folder, graph(inputs="image")),
    "checkpoint: empty": raw(".safetensors", b""),
    "checkpoint: random bytes": raw(".safetensors", np.random.default_rng(1).bytes(5000)),
    "checkpoint: 20 GB": raw(".safetensors", b"", 20 << 30),
    "checkpoint: claims 10 GB": claims([50_000, 50_000], 10**10),
    "checkpoint: claims a header of 2^62 bytes": claims([1], 4, 2**62),
    "checkpoint: a pickle": raw(".safetensors", pickle.dumps(Command())),
    "checkpoint: header nested": checkpoint(text=DEEP),
    "checkpoint: header a list": checkpoint(text="[1]"),
    "checkpoint: no settings": checkpoint(lambda header: header.pop("config")),
    "checkpoint: settings a list": checkpoint(lambda header: header.update(config=["model"])),
    "checkpoint: unknown setting": setting(forest__size=3),
    "checkpoint: 10^9 trees": setting(forest__trees=10**9),
    "checkpoint: many deep trees": setting(forest__trees=1000, forest__depth=16, forest__units=32_768),
    "checkpoint: 10^9 ages": setting(ages__high=10**9),
    "checkpoint: picture of 10^6 pixels": checkpoint(lambda header: header["picture"].update(size=10**6)),
    "checkpoint: other depth": setting(forest__depth=3),
    "checkpoint: no such network": setting(backbone__name="timm:no_such_network"),
    "checkpoint: NaN in a leaf": checkpoint(tensors=lambda t: t["forest.mean"].fill_(torch.nan)),
    "checkpoint: leaf without variance": checkpoint(tensors=lambda t: t["forest.variance"].zero_()),
    "checkpoint: unit that is not there": checkpoint(tensors=lambda t: t["forest.phi"].fill_(10**6)),
    "checkpoint: a tensor is missing": checkpoint(tensors=lambda t: t.pop("f.weight")),
    "checkpoint: calibration infinite": checkpoint(
        lambda header: header.update(calibration={**CARD["calibration"], "scale": float("inf")})
    ),
    "weights: code": weights_with_code,
}
