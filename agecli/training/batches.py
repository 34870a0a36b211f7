"""Batches, whose order and augmentation depend on the seed and the iteration alone, so that a run can be resumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from agecli.core.records import Sample
from agecli.core.seeding import derive, generator
from agecli.images.reading import PictureSpec, UnreadableError, cut, read_picture
from agecli.training.augmentation import Augmentation

Key = tuple[int, int]  # a sample's index, and its position in the stream of all samples ever drawn


@dataclass(frozen=True)
class Batch:
    """The input of a network and its labels. Unreadable pictures are left out, so that B may be 0."""

    inputs: Tensor  # pixels (B, 3, H, W), uint8, or features (B, D), float32
    ages: Tensor  # (B,), in years
    indices: tuple[int, ...] = ()  # of the samples
    broken: tuple[tuple[str, str], ...] = ()  # path and reason of the files that could not be read

    def pin_memory(self) -> Batch:
        """The same in page-locked memory, for a quicker copy to a GPU; called by the DataLoader."""
        return Batch(self.inputs.pin_memory(), self.ages.pin_memory(), self.indices, self.broken)


class Stream(Sampler[list[Key]]):
    """The samples of iteration `start`, `start + 1`, … below `stop`: shuffled passes, cut into batches.

    samples: how many there are; batch_size: over all ranks, each of which gets its share of every batch.
    weights: (samples,), or None for equal ones. A weighted pass has as many samples as any other, and each of them in
    proportion to its weight, rounded up or down.

    >>> next(iter(Stream(samples=5, batch_size=2, seed=0, start=0, stop=10)))  # (index, position) pairs
    """

    def __init__(
        self,
        samples: int,
        batch_size: int,
        seed: int,
        start: int,
        stop: int,
        rank: int = 0,
        ranks: int = 1,
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        self.samples, self.batch_size, self.seed = samples, batch_size, seed
        self.start, self.stop, self.rank, self.ranks, self.weights = start, stop, rank, ranks, weights

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[list[Key]]:
        current, order = -1, [0]
        for iteration in range(self.start, self.stop):
            keys = []
            for position in range(iteration * self.batch_size, (iteration + 1) * self.batch_size):
                epoch, place = divmod(position, self.samples)
                if epoch != current:
                    current, order = epoch, self._order(generator(self.seed, "epoch", epoch)).tolist()
                keys.append((order[place], position))
            yield keys[self.rank :: self.ranks]

    def _order(self, draw: np.random.Generator) -> NDArray[np.int64]:
        """The indices of one pass (samples,)."""
        return draw.permutation(self.samples) if self.weights is None else in_proportion(self.weights, draw)


def in_proportion(weights: NDArray[np.float64], draw: np.random.Generator) -> NDArray[np.int64]:
    """As many indices as there are weights, each as often as its weight says, rounded up or down, in random order.

    By systematic sampling over a random order.   weights: (n,), above 0. Returns (n,).
    """
    order = draw.permutation(len(weights))
    ends = np.cumsum(weights[order]) * (len(weights) / weights.sum())
    pointers = np.arange(len(weights)) + draw.random()
    return draw.permutation(order[np.searchsorted(ends, pointers, side="right").clip(max=len(weights) - 1)])


def sampling_weights(
    ages: Sequence[float], power: float, weights: Sequence[float] | None = None
) -> NDArray[np.float64] | None:
    """How often each face is drawn: its own weight times n ** -power, where n is the weight of the faces within two years.

    ages: in years; weights: of the manifest, by default 1. Returns (len(ages),), or None if all faces are drawn alike.

    >>> sampling_weights([5, 30, 30], power=1)
    array([1. , 0.5, 0.5])
    """
    own = np.ones(len(ages)) if weights is None else np.asarray(weights, dtype=float)
    if not power and (own == own[:1]).all():
        return None
    years = np.asarray(ages)
    order = np.argsort(years, kind="stable")
    ordered, below = years[order], np.concatenate(([0.0], np.cumsum(own[order])))
    near = below[np.searchsorted(ordered, years + 2, side="right")] - below[np.searchsorted(ordered, years - 2)]
    weighted: NDArray[np.float64] = own * near**-power
    return weighted


class Faces(Dataset[tuple[Tensor | None, float, int, str]]):
    """A map-style dataset of face pictures: pixels (3, size, size), age, index and error of a sample.

    The pixels of a picture that can't be read are None, and the error says why.
    """

    def __init__(
        self,
        folder: Path,
        samples: Sequence[Sample],
        spec: PictureSpec,
        augment: Augmentation | None = None,
        seed: int = 0,
    ) -> None:
        self.folder, self.samples, self.spec, self.augment, self.seed = folder, samples, spec, augment, seed

    def __getitem__(self, key: Key) -> tuple[Tensor | None, float, int, str]:
        index, position = key
        sample = self.samples[index]
        try:
            image = read_picture(self.folder / sample.path)
        except UnreadableError as error:
            return None, sample.age, index, str(error)
        if self.augment is None:
            pixels = cut(image, self.spec)
        else:
            pixels = self.augment(image, derive(self.seed, "augment", position))
        return torch.from_numpy(pixels), sample.age, index, ""

    def collate(self, items: Sequence[tuple[Tensor | None, float, int, str]]) -> Batch:
        """A batch of the readable ones among these items."""
        good = [(pixels, age, index) for pixels, age, index, _ in items if pixels is not None]
        broken = tuple((self.samples[index].path, reason) for pixels, _, index, reason in items if pixels is None)
        side = self.spec.size
        inputs = (
            torch.stack([pixels for pixels, _, _ in good]) if good else torch.zeros(0, 3, side, side, dtype=torch.uint8)
        )
        return Batch(inputs, torch.tensor([age for _, age, _ in good]), tuple(index for _, _, index in good), broken)


def training_batches(faces: Faces, stream: Stream, workers: int, pin: bool) -> DataLoader[Batch]:
    """The batches of a stream, read by `workers` processes, or by this one if 0; `pin` for a GPU."""
    return _loader(faces, stream, workers, pin)


def every_face(faces: Faces, batch_size: int, workers: int, pin: bool = False) -> DataLoader[Batch]:
    """Each face once, in order, without a shuffle."""
    keys = [(index, index) for index in range(len(faces.samples))]
    chunks = [keys[start : start + batch_size] for start in range(0, len(keys), batch_size)]
    return _loader(faces, chunks, workers, pin)


def _loader(faces: Faces, batches: Stream | list[list[Key]], workers: int, pin: bool) -> DataLoader[Batch]:
    """A DataLoader of the given lists of keys."""
    return DataLoader(faces, batch_sampler=batches, num_workers=workers, pin_memory=pin, collate_fn=faces.collate)  # type: ignore[arg-type]


def feature_batches(features: Tensor, ages: Tensor, stream: Stream) -> Iterator[Batch]:
    """The batches of a stream over cached features (n, D) and their ages (n,)."""
    for keys in stream:
        indices = tuple(index for index, _ in keys)
        chosen = torch.tensor(indices)
        yield Batch(features[chosen], ages[chosen], indices)
