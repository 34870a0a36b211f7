"""YuNet on onnxruntime sees what OpenCV's own YuNet sees."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from skimage import data

from agecli.images import yunet


@pytest.fixture(scope="module")
def separate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network with the twelve outputs that OpenCV reads."""
    onnx = pytest.importorskip("onnx")
    make = onnx.helper.make_node
    model = onnx.load(Path(yunet.__file__).with_name("yunet.onnx"))
    graph = model.graph
    del graph.output[:]
    graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, -1, 16]), "cells_last"))
    for stride in yunet.STRIDES:
        parts = [f"{part}_{stride}" for part in ("cls", "obj", "bbox", "kps")]
        logits = [f"{part}_logits" for part in parts[:2]]
        graph.node.append(make("Transpose", [f"head_{stride}"], [f"turned_{stride}"], perm=[0, 2, 3, 1]))
        graph.node.append(make("Reshape", [f"turned_{stride}", "cells_last"], [f"rows_{stride}"]))
        graph.node.append(make("Split", [f"rows_{stride}"], [*logits, *parts[2:]], axis=2, split=[1, 1, 4, 10]))
        graph.node.extend(make("Sigmoid", [one], [two]) for one, two in zip(logits, parts[:2], strict=True))
        graph.output.extend(onnx.helper.make_tensor_value_info(part, onnx.TensorProto.FLOAT, []) for part in parts)
    path = tmp_path_factory.mktemp("yunet") / "separate.onnx"
    onnx.save(model, path)
    return Path(path)


@pytest.mark.parametrize("size", [(256, 256), (400, 500), (97, 130), (512, 333), (200, 700)])
@pytest.mark.parametrize("least", [0.5, 0.3])
def test_boxes_eyes_and_scores_are_those_of_opencv(separate: Path, size: tuple[int, int], least: float) -> None:
    portrait = np.asarray(data.astronaut(), np.uint8)  # type: ignore[no-untyped-call]
    photo = cv2.resize(np.concatenate((portrait, portrait[::2, ::2].repeat(2, axis=0)), axis=1), size[::-1])
    peer = cv2.FaceDetectorYN.create(str(separate), "", size[::-1], least, yunet.MAX_IOU, yunet.MAX_BOXES)
    _, rows = peer.detect(np.ascontiguousarray(photo[:, :, ::-1]))
    expected = np.zeros((0, 15)) if rows is None else rows
    found = yunet.detect(np.asarray(photo, np.uint8), least)
    assert len(found) == len(expected)
    assert np.allclose(found[:, :14], expected[:, :14], atol=0.05)
    assert np.allclose(found[:, -1], expected[:, -1], atol=1e-3)
    assert len(found) or min(size) < 100


def test_rows_that_are_not_contiguous_give_the_same_faces() -> None:
    portrait = np.asarray(data.astronaut(), np.uint8)  # type: ignore[no-untyped-call]
    upside_down = np.ascontiguousarray(portrait[::-1, ::-1])
    assert np.array_equal(yunet.detect(upside_down[::-1, ::-1], 0.5), yunet.detect(portrait, 0.5))


def test_a_picture_without_a_face_has_no_row() -> None:
    assert yunet.detect(np.zeros((64, 96, 3), np.uint8), 0.5).shape == (0, 15)
