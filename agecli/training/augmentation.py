"""Augmentation: random changes of a face picture that keep its age, each determined by a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from agecli.images.reading import PictureSpec, Pixels, resize, to_pixels
from agecli.model.torchvision_shim import v2

Light = NDArray[np.float32]  # (size, size, 3), 0 to 1
GREY_SHARE = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # luma weights of red, green and blue (ITU-R BT.601)


STEPS: dict[str, Callable[[int], list[Any]]] = {
    "paper": lambda size: [v2.RandomCrop(size), v2.RandomHorizontalFlip()],
    "modern": lambda size: [
        v2.RandomAffine(degrees=10, scale=(0.9, 1.1), interpolation=v2.InterpolationMode.BILINEAR),
        v2.RandomCrop(size),
        v2.RandomHorizontalFlip(),
        v2.ColorJitter(brightness=0.25, contrast=0.25, saturation=0.25),
        v2.RandomGrayscale(0.1),
        v2.RandomApply([v2.GaussianBlur(5, sigma=(0.3, 2.0))], p=0.1),
    ],
}


class Augmentation:
    """A callable: a face picture and a seed -> pixels (3, size, size), uint8. It can be pickled for worker processes.

    >>> pixels = Augmentation("modern", spec)(image, seed=7)
    """

    def __init__(self, name: str, spec: PictureSpec, mask: float = 0.0) -> None:
        self.spec, self.mask, self.graded = spec, mask, name == "graded"
        self.wild = {"wild": 1.0, "mixed": 0.5}.get(name, 0.0)  # the share of pictures with strong augmentation
        self.change = v2.Compose(STEPS[name if name in STEPS else "paper"](spec.size))

    def __call__(self, image: Image.Image, seed: int) -> Pixels:
        image = resize(image, self.spec)
        draw = np.random.default_rng(seed)
        if self.mask and draw.random() < self.mask:
            image = Image.fromarray(hide_outside(np.asarray(image, dtype=np.uint8), draw))
        if self.graded:
            return wild(image, self.spec.size, draw, draw.random())
        if draw.random() < self.wild:
            return wild(image, self.spec.size, draw)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            changed: Pixels = self.change(torch.from_numpy(to_pixels(image))).numpy()
            return changed


def augmentation(name: str, spec: PictureSpec, mask: float = 0.0) -> Augmentation | None:
    """The augmentation of `data.augment`; None for `none`, a plain centre crop.

    mask: the share of pictures whose surroundings are masked, see `hide_outside`.
    """
    return None if name == "none" else Augmentation(name, spec, mask)


def hide_outside(face: NDArray[np.uint8], draw: np.random.Generator) -> NDArray[np.uint8]:
    """Mask a face (side, side, 3) with grey outside of a random, turned frame, as alignment does with tightly cut photos.

    Otherwise a network can learn from a grey border which data set a face is from, and from that its age. The margins go
    up to those of UTKFace's chips in the frame of `specs.ARCFACE`, and below 0, where a side of the frame is not seen;
    the turn is that of heads that lean in small photos, such as FG-NET's.
    """
    side = len(face)
    left, right, top, bottom = draw.uniform(-0.12, (0.26, 0.26, 0.34, 0.16)) * side
    frame = np.array([(left, top), (side - right, top), (side - right, side - bottom), (left, side - bottom)])
    turn = cv2.getRotationMatrix2D((side / 2, side / 2), draw.normal(0, 8), 1.0)
    corners = frame @ turn[:, :2].T + turn[:, 2]
    inside = np.zeros((side, side), np.uint8)
    cv2.fillConvexPoly(inside, np.round(corners).astype(np.int32), [1])
    return np.where(inside[:, :, None] > 0, face, np.uint8(128))


def wild(image: Image.Image, size: int, draw: np.random.Generator, strength: float = 1.0) -> Pixels:
    """Strong augmentation: geometry, light, blur, old prints, noise, JPEG artefacts and random erasing.

    image: a face picture; size: of the result, in pixels; draw: the source of random numbers; strength: 0 to 1, scales
    the geometric changes and the probability of all others. Returns (3, size, size), uint8.
    """
    face = _move(np.asarray(image, dtype=np.uint8), size, draw, strength)
    light = np.asarray(face / 255, dtype=np.float32)
    if draw.random() < strength:
        light = _relight(light, draw)
    if draw.random() < strength:
        light = _blur(light, draw)
    if draw.random() < 0.3 * strength:
        light = old_print(light, draw)
    if draw.random() < 0.25 * strength:  # sensor noise or film grain
        light += draw.normal(0, draw.uniform(0.01, 0.06), (size, size, int(draw.choice([1, 3]))))
    face = (light * 255).clip(0, 255).astype(np.uint8)
    if draw.random() < 0.3 * strength:
        quality = int(draw.integers(15, 80))
        _, file = cv2.imencode(".jpg", face, [cv2.IMWRITE_JPEG_QUALITY, quality])
        face = np.asarray(cv2.imdecode(file, cv2.IMREAD_COLOR), dtype=np.uint8)
    if draw.random() < 0.2 * strength:  # random erasing: a hand, a microphone, a torn corner
        height, width = draw.integers(size // 8, size // 3, 2)
        top, left = draw.integers(0, size - height), draw.integers(0, size - width)
        face[top : top + height, left : left + width] = draw.integers(0, 256, 3)
    return np.ascontiguousarray(face.transpose(2, 0, 1))


def _move(face: NDArray[np.uint8], size: int, draw: np.random.Generator, strength: float) -> NDArray[np.uint8]:
    """Flip, rotate, scale, stretch and shift in one warp, for errors of detectors and turned heads.   (size, size, 3)"""
    middle = (face.shape[1] / 2, face.shape[0] / 2)
    turn, zoom = draw.normal(0, 6 * strength), float(np.exp(draw.normal(0, 0.07 * strength)))
    matrix = cv2.getRotationMatrix2D(middle, turn, zoom)
    matrix[0] *= np.exp(draw.normal(0, 0.03 * strength))
    matrix[:, 2] = size / 2 - matrix[:, :2] @ middle + draw.normal(0, 0.025 * size * strength, 2)
    if draw.random() < 0.5:
        matrix[0] = -matrix[0]
        matrix[0, 2] += size - 1
    moved = cv2.warpAffine(face, matrix, (size, size), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    return np.asarray(moved, dtype=np.uint8)


def _relight(light: Light, draw: np.random.Generator) -> Light:
    """Change exposure, contrast, gamma, white balance and saturation."""
    light = np.asarray(light ** np.exp(draw.normal(0, 0.25)), dtype=np.float32)
    mean = light.mean()
    contrast, exposure = np.exp(draw.normal(0, 0.2)), draw.normal(0, 0.06)
    light = np.asarray((light - mean) * contrast + mean + exposure, dtype=np.float32)
    grey = (light @ GREY_SHARE)[:, :, None]
    kept = 0.0 if draw.random() < 0.2 else draw.uniform(0.4, 1.3)  # of the colours
    cast = np.exp(draw.normal(0, 0.08, 3)) if draw.random() < 0.4 else 1.0
    return np.asarray((grey + kept * (light - grey)) * cast, dtype=np.float32)


def _blur(light: Light, draw: np.random.Generator) -> Light:
    """Blur, or scale down and up again, with the chances 20 % and 30 %."""
    size = len(light)
    kind = draw.random()
    if kind < 0.2:
        return np.asarray(cv2.GaussianBlur(light, (0, 0), draw.uniform(0.4, 0.018 * size)), dtype=np.float32)
    if kind < 0.5:
        small = int(draw.integers(size // 4, size))
        shrunk = cv2.resize(light, (small, small), interpolation=cv2.INTER_AREA)
        return np.asarray(cv2.resize(shrunk, (size, size), interpolation=cv2.INTER_LINEAR), dtype=np.float32)
    return light


def old_print(light: Light, draw: np.random.Generator) -> Light:
    """A scan of an old print: faded blacks and whites, a yellow or red cast, uneven light, film grain, dust.

    light: (size, size, 3), 0 to 1.   Returns the same shape; values may lie a little outside of 0 to 1.
    """
    size = len(light)
    grey = (light @ GREY_SHARE)[:, :, None]
    light = np.asarray(grey + draw.uniform(0.0, 0.8) * (light - grey), dtype=np.float32)
    black, white = draw.uniform(0.0, 0.25), draw.uniform(0.75, 1.0)
    tint = np.array([1.0, draw.uniform(0.85, 1.0), draw.uniform(0.6, 1.0)], dtype=np.float32)
    light = (black + (white - black) * light) * tint
    down, right = np.meshgrid(*2 * [np.linspace(-1, 1, size, dtype=np.float32)], indexing="ij")
    slope = draw.normal(0, 0.08, 2)
    light = light * (1 + slope[0] * down + slope[1] * right)[:, :, None]
    grain = np.asarray(draw.normal(0, 1, (size, size)), dtype=np.float32)
    grain = np.asarray(cv2.GaussianBlur(grain, (0, 0), draw.uniform(0.4, 1.2)), dtype=np.float32)
    light = np.ascontiguousarray(light + (draw.uniform(0.0, 0.03) / max(1e-6, float(grain.std())) * grain)[:, :, None])
    for _ in range(int(draw.integers(0, 6))):  # dust and scratches
        start = draw.integers(0, size, 2)
        end = start + draw.integers(-size // 12, size // 12 + 1, 2)
        cv2.line(light, start.tolist(), end.tolist(), [float(draw.choice([0.1, 0.9]))] * 3, 1)
    return np.asarray(light, dtype=np.float32)
