"""YuNet on onnxruntime sees what OpenCV's own YuNet sees."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from skimage import data

from agecli.images import yunet


@pytest.mark.parametrize("size", [(256, 256), (400, 500), (97, 130), (512, 333), (200, 700)])
@pytest.mark.parametrize("least", [0.5, 0.3])
def test_boxes_eyes_and_scores_are_those_of_opencv(size: tuple[int, int], least: float) -> None:
    portrait = np.asarray(data.astronaut(), np.uint8)  # type: ignore[no-untyped-call]
    photo = cv2.resize(np.concatenate((portrait, portrait[::2, ::2].repeat(2, axis=0)), axis=1), size[::-1])
    peer = cv2.FaceDetectorYN.create(
        str(Path(yunet.__file__).with_name("yunet.onnx")), "", size[::-1], least, yunet.MAX_IOU, yunet.MAX_BOXES
    )
    _, rows = peer.detect(np.ascontiguousarray(photo[:, :, ::-1]))
    expected = np.zeros((0, 15)) if rows is None else rows
    found = yunet.detect(np.asarray(photo, np.uint8), least)
    assert len(found) == len(expected)
    assert np.allclose(found[:, :14], expected[:, :14], atol=0.05)
    assert np.allclose(found[:, -1], expected[:, -1], atol=1e-3)
    assert len(found) or min(size) < 100
