"""What a fold learns from: the pixels of its faces, or features of a frozen backbone. `make_inputs` decides."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from agecli.core.config import Config
from agecli.datasets.manifest import Manifest
from agecli.model.devices import to_device
from agecli.model.network import AgeModel
from agecli.training.augmentation import augmentation
from agecli.training.batches import Batch, Faces, Stream, every_face, feature_batches, training_batches
from agecli.training.features import Features, compute_features

EVALUATION_BATCH = 32
Progress = Callable[[int, int], None]  # faces that are done, of all


@dataclass(frozen=True)
class Units:
    """f(x) of some samples in evaluation mode."""

    values: Tensor  # (n, M), float32, on the CPU
    indices: tuple[int, ...]  # of the n samples that could be read
    broken: dict[str, str]  # unreadable pictures: path -> reason


class Inputs(Protocol):
    """What training and evaluation need of either kind of input."""

    broken: dict[str, str]  # pictures that are known to be unreadable: path -> reason

    def network(self, model: AgeModel) -> nn.Module:
        """The part of the model that runs while it learns: inputs -> (B, M)."""

    def trained(self, model: AgeModel) -> list[tuple[nn.Module, float]]:
        """The parts that the optimiser changes, each with its multiple of the learning rate."""

    def batches(self, model: AgeModel, train: Sequence[int], stream: Stream) -> Iterable[Batch]:
        """The training batches of a stream."""

    def units(self, model: AgeModel, indices: Sequence[int]) -> Units:
        """f(x) of some samples, each once, without augmentation."""


def pick_workers(workers: int | None, device: torch.device) -> int:
    """The number of processes that read pictures: `workers`, or by default up to 8 for a GPU and none for a CPU, whose
    cores the network needs."""
    if workers is not None:
        return workers
    return min(8, os.cpu_count() or 1) if device.type == "cuda" else 0


class PixelInputs:
    """Pictures, decoded and augmented anew in each pass."""

    def __init__(self, manifest: Manifest, config: Config, device: torch.device, workers: int | None) -> None:
        self.manifest, self.config, self.device = manifest, config, device
        self.workers = pick_workers(workers, device)
        self.broken: dict[str, str] = {}  # known only when a picture is read
        self.pin = device.type == "cuda"

    def network(self, model: AgeModel) -> nn.Module:
        return model.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def trained(self, model: AgeModel) -> list[tuple[nn.Module, float]]:
        return [(model.backbone, self.config.training.backbone_lr), (model.f, 1.0)]

    def batches(self, model: AgeModel, train: Sequence[int], stream: Stream) -> Iterable[Batch]:
        samples = [self.manifest.samples[index] for index in train]
        augment = augmentation(self.config.data.augment, model.picture)
        faces = Faces(self.manifest.folder, samples, model.picture, augment, stream.seed)
        return training_batches(faces, stream, self.workers, self.pin)

    def units(self, model: AgeModel, indices: Sequence[int]) -> Units:
        faces = Faces(self.manifest.folder, [self.manifest.samples[index] for index in indices], model.picture)
        network = self.network(model).eval()
        values, read, broken = [torch.zeros(0, model.f.out_features)], [], {}
        with torch.inference_mode():
            for batch in every_face(faces, EVALUATION_BATCH, self.workers, self.pin):
                broken.update(batch.broken)
                if batch.indices:
                    values.append(network(to_device(batch.inputs, self.device)).float().cpu())
                    read += [indices[index] for index in batch.indices]
        return Units(torch.cat(values), tuple(read), broken)


class FeatureInputs:
    """Features of a frozen backbone, computed once."""

    def __init__(self, manifest: Manifest, features: Features, device: torch.device) -> None:
        self.features, self.device = features, device
        self.ages = torch.tensor([sample.age for sample in manifest.samples])
        self.broken = features.broken
        self.readable = ~features.values.isnan().any(dim=1)

    def network(self, model: AgeModel) -> nn.Module:
        return model.head

    def trained(self, model: AgeModel) -> list[tuple[nn.Module, float]]:
        return [(model.f, 1.0)]

    def batches(self, model: AgeModel, train: Sequence[int], stream: Stream) -> Iterable[Batch]:
        return feature_batches(self.features.values[list(train)], self.ages[list(train)], stream)

    def standardise(self, model: AgeModel, train: Sequence[int]) -> None:
        """Give all features of the training part mean 0 and std 1. Raw ones differ in size by orders of magnitude, and
        the small ones would hardly be learned from (8.1 against 8.5 years on UTKFace).

        A feature that is nearly constant in training is not scaled up, or one outlier would saturate f.
        """
        values = self.features.values[list(train)]
        std = values.std(dim=0, correction=0)
        model.scale.mean.copy_(values.mean(dim=0))
        model.scale.std.copy_(std.clamp_min(0.1 * std.mean().clamp_min(1e-6)))

    def units(self, model: AgeModel, indices: Sequence[int]) -> Units:
        read = tuple(index for index in indices if self.readable[index])
        head = model.head.eval()
        with torch.inference_mode():
            values = head(self.features.values[list(read)].to(self.device)).float().cpu()
        return Units(values, read, self.broken)


def no_progress(done: int, total: int) -> None:
    """Report nothing."""


def make_inputs(
    model: AgeModel,
    config: Config,
    manifest: Manifest,
    device: torch.device,
    workers: int | None = None,
    progress: Progress = no_progress,
) -> Inputs:
    """The inputs for a model: features of all faces of the manifest if its backbone is frozen, else pixels.

    Features come from the cache as far as they are there; `progress` is told of them.

    >>> units = make_inputs(model, config, manifest, device).units(model, range(10))
    """
    if not config.backbone.freeze:
        return PixelInputs(manifest, config, device, workers)
    reading = pick_workers(workers, device)
    name, samples = config.backbone.name, manifest.samples
    features = compute_features(model, name, manifest.folder, samples, device, reading, progress)
    return FeatureInputs(manifest, features, device)
