"""Batches: in an order and with an augmentation that are functions of the seed and the iteration alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from agecli.data.manifest import Sample
from agecli.pictures import PictureSpec, UnreadableError, centre_crop, read_picture, resize, to_pixels
from agecli.randomness import derive, generator
from agecli.vision import v2

Key = tuple[int, int]  # a sample's index, and its position in the stream of all samples ever drawn


@dataclass(frozen=True)
class Batch:
    """What a network is shown: pixels (B, 3, H, W) or features (B, D), and the ages (B,)."""

    inputs: Tensor
    ages: Tensor
    indices: tuple[int, ...] = ()
    broken: tuple[tuple[str, str], ...] = ()  # path and reason of the files that could not be read

    def pin_memory(self) -> Batch:
        return Batch(self.inputs.pin_memory(), self.ages.pin_memory(), self.indices, self.broken)


class Stream(Sampler[list[Key]]):
    """The samples of iteration `start`, `start + 1`, …: one shuffled pass after the other, cut into batches.

    The ranks of a distributed run share out each batch.
    """

    def __init__(
        self, samples: int, batch_size: int, seed: int, start: int, stop: int, rank: int = 0, ranks: int = 1
    ) -> None:
        self.samples, self.batch_size, self.seed = samples, batch_size, seed
        self.start, self.stop, self.rank, self.ranks = start, stop, rank, ranks

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[list[Key]]:
        current, order = -1, [0]
        for iteration in range(self.start, self.stop):
            keys = []
            for position in range(iteration * self.batch_size, (iteration + 1) * self.batch_size):
                epoch, place = divmod(position, self.samples)
                if epoch != current:
                    current, order = epoch, generator(self.seed, "epoch", epoch).permutation(self.samples).tolist()
                keys.append((order[place], position))
            yield keys[self.rank :: self.ranks]


Augment = Callable[[Tensor], Tensor]


def augmentation(name: str, spec: PictureSpec) -> Augment | None:
    """Random changes that keep the age: uint8 (3, H, W) -> uint8 (3, size, size). None for the plain centre crop."""
    steps: list[Any]
    if name == "none":
        return None
    if name == "paper":
        steps = [v2.RandomCrop(spec.size), v2.RandomHorizontalFlip()]
    else:
        steps = [
            v2.RandomAffine(degrees=10, scale=(0.9, 1.1), interpolation=v2.InterpolationMode.BILINEAR),
            v2.RandomCrop(spec.size),
            v2.RandomHorizontalFlip(),
            v2.ColorJitter(brightness=0.25, contrast=0.25, saturation=0.25),
            v2.RandomGrayscale(0.1),
            v2.RandomApply([v2.GaussianBlur(5, sigma=(0.3, 2.0))], p=0.1),
        ]
    augment: Augment = v2.Compose(steps)
    return augment


class Faces(Dataset[tuple[Tensor | None, float, int, str]]):
    """Face pictures as pixels; one that can't be read comes as None, with the reason."""

    def __init__(
        self, folder: Path, samples: Sequence[Sample], spec: PictureSpec, augment: Augment | None = None, seed: int = 0
    ) -> None:
        self.folder, self.samples, self.spec, self.augment, self.seed = folder, samples, spec, augment, seed

    def __getitem__(self, key: Key) -> tuple[Tensor | None, float, int, str]:
        index, position = key
        sample = self.samples[index]
        try:
            image = resize(read_picture(self.folder / sample.path), self.spec)
        except UnreadableError as error:
            return None, sample.age, index, str(error)
        if self.augment is None:
            return torch.from_numpy(to_pixels(centre_crop(image, self.spec))), sample.age, index, ""
        with torch.random.fork_rng(devices=[]):  # the same draws whichever worker makes them
            torch.manual_seed(derive(self.seed, "augment", position))
            return self.augment(torch.from_numpy(to_pixels(image))), sample.age, index, ""

    def collate(self, items: Sequence[tuple[Tensor | None, float, int, str]]) -> Batch:
        good = [(pixels, age, index) for pixels, age, index, _ in items if pixels is not None]
        broken = tuple((self.samples[index].path, reason) for pixels, _, index, reason in items if pixels is None)
        side = self.spec.size
        inputs = (
            torch.stack([pixels for pixels, _, _ in good]) if good else torch.zeros(0, 3, side, side, dtype=torch.uint8)
        )
        return Batch(inputs, torch.tensor([age for _, age, _ in good]), tuple(index for _, _, index in good), broken)


def training_batches(faces: Faces, stream: Stream, workers: int, pin: bool) -> DataLoader[Batch]:
    return _loader(faces, stream, workers, pin)


def every_face(faces: Faces, batch_size: int, workers: int, pin: bool = False) -> DataLoader[Batch]:
    """Each face once, in order."""
    keys = [(index, index) for index in range(len(faces.samples))]
    chunks = [keys[start : start + batch_size] for start in range(0, len(keys), batch_size)]
    return _loader(faces, chunks, workers, pin)


def _loader(faces: Faces, batches: Stream | list[list[Key]], workers: int, pin: bool) -> DataLoader[Batch]:
    return DataLoader(faces, batch_sampler=batches, num_workers=workers, pin_memory=pin, collate_fn=faces.collate)  # type: ignore[arg-type]


def feature_batches(features: Tensor, ages: Tensor, stream: Stream) -> Iterator[Batch]:
    """The same stream over features that were computed before."""
    for keys in stream:
        chosen = torch.tensor([index for index, _ in keys])
        yield Batch(features[chosen], ages[chosen])
