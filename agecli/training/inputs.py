"""What a fold learns from: the pixels of its faces, or features of a frozen backbone. `make_inputs` decides.

With pixels, backbone and f are trained, and pictures are augmented. With features, only f is trained, on one vector for
each face that is computed once and cached, so that a run takes seconds instead of hours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from agecli.core.config import Config
from agecli.core.seeding import generator
from agecli.datasets.manifest import Manifest
from agecli.model.devices import to_device
from agecli.model.integers import keep_exact, use_integers
from agecli.model.network import AgeModel
from agecli.model.thinning import fit_thin
from agecli.training.augmentation import augmentation
from agecli.training.batches import Batch, Faces, Stream, every_face, feature_batches, training_batches
from agecli.training.features import Features, compute_features
from agecli.training.optimisation import Part, backbone_parts

EVALUATION_BATCH = 32
Progress = Callable[[int, int], None]  # faces that are done, of all
STANDARDISE_FACES = 256  # enough for the std of a feature within 5 %
ROUNDED_FACES = 128  # they pass the network once for each of its layers
THINNING_FACES = 1200  # of which the last layers, with nine positions, have ten thousand inputs


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
        """The part of the model that is run in training: inputs of a batch -> f(x), (B, M)."""

    def trained(self, model: AgeModel) -> list[Part]:
        """The weights that are trained, for `make_optimiser`."""

    def standardise(self, model: AgeModel, train: Sequence[int]) -> None:
        """Set the model's scale so that the inputs of f have mean 0 and std 1 over faces of the training part.

        train: indices of the training part in the manifest.
        """

    def thin(self, model: AgeModel, train: Sequence[int]) -> None:
        """Leave out hidden units of the backbone, by what it makes of faces of the training part (`backbone.hidden`).

        train: indices of the training part in the manifest.
        """

    def start_integers(self, model: AgeModel, train: Sequence[int]) -> None:
        """Give the backbone integer layers, and choose those that stay exact by faces of the training part.

        train: indices of the training part in the manifest.
        """

    def batches(self, model: AgeModel, train: Sequence[int], stream: Stream) -> Iterable[Batch]:
        """The training batches of a stream.

        train: indices of the training part in the manifest, from which the stream draws.
        """

    def units(self, model: AgeModel, indices: Sequence[int]) -> Units:
        """f(x) of some samples in evaluation mode, each once, without augmentation.

        indices: in the manifest. The result has the order of `indices`, without unreadable ones.
        """


def pick_workers(workers: int | None, device: torch.device) -> int:
    """The number of processes that read pictures: `workers`, or by default up to 8 for a GPU and none for a CPU, whose
    cores the network needs."""
    if workers is not None:
        return workers
    return min(8, os.cpu_count() or 1) if device.type == "cuda" else 0


def standardise(model: AgeModel, features: Tensor) -> None:
    """Set the model's scale so that each column of these features (n, D) has mean 0 and std 1.

    The split nodes' logits then start with a std of units_std * sqrt(D), about 0.1 to 0.3, whatever the backbone. Raw
    features differ in size by orders of magnitude: small ones would hardly be learned from (8.1 against 8.5 years on
    UTKFace), and features of std 0.04 leave every split at one half for good.

    A feature that is nearly constant in training is not scaled up, or one outlier would saturate f.
    """
    std = features.std(dim=0, correction=0)
    model.scale.mean.copy_(features.mean(dim=0))
    model.scale.std.copy_(std.clamp_min(0.1 * std.mean().clamp_min(1e-6)))


class PixelInputs:
    """Pictures, decoded and augmented anew in each pass."""

    def __init__(self, manifest: Manifest, config: Config, device: torch.device, workers: int | None) -> None:
        self.manifest, self.config, self.device = manifest, config, device
        self.workers = pick_workers(workers, device)
        self.broken: dict[str, str] = {}  # known only when a picture is read
        self.pin = device.type == "cuda"

    def network(self, model: AgeModel) -> nn.Module:
        """Backbone and f: pixels (B, 3, H, W) -> (B, M), in channels-last format."""
        return model.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def trained(self, model: AgeModel) -> list[Part]:
        """The layers of the backbone, but for those in `backbone.frozen_layers`, and f."""
        parts = backbone_parts(model.backbone, self.config.training)
        frozen = min(self.config.backbone.frozen_layers, len(parts))
        for part in parts[:frozen]:
            for weights in part.weights:
                weights.requires_grad_(False)  # no gradient is computed for them, nor for anything below
        return [*parts[frozen:], Part(list(model.f.parameters()))]

    def standardise(self, model: AgeModel, train: Sequence[int]) -> None:
        """Standardise f's inputs by the features of some training faces, as the network sees them while it learns.

        Batch norms use the statistics of the batch, as in training; their running statistics do not change.
        """
        before = {name: value.clone() for name, value in model.backbone.named_buffers()}
        extractor = model.extractor.train()
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            values = [extractor(pixels).float() for pixels in self._some_faces(model, train, STANDARDISE_FACES)]
            for name, value in model.backbone.named_buffers():
                value.copy_(before[name])
        if values:
            standardise(model, torch.cat(values))

    def thin(self, model: AgeModel, train: Sequence[int]) -> None:
        """Leave out hidden units, and fit the others on some training faces."""
        settings, faces = self.config.backbone, self._some_faces(model, train, THINNING_FACES)
        fit_thin(model.colours, model.backbone, faces, settings.hidden, settings.name)

    def start_integers(self, model: AgeModel, train: Sequence[int]) -> None:
        """Replace the linear layers; some faces tell the ranges of their inputs, so that the model can be validated before
        its first iteration, and which ones are better not rounded (`backbone.exact`).
        """
        settings = self.config.backbone
        use_integers(model.backbone, settings.name)
        if faces := self._some_faces(model, train, ROUNDED_FACES):
            keep_exact(model.colours, model.backbone, faces, settings.exact)

    def _some_faces(self, model: AgeModel, train: Sequence[int], count: int) -> list[Tensor]:
        """Random faces of the training part, as batches of pixels (B, 3, H, W)."""
        chosen = generator(self.config.training.seed, "standardise").permutation(list(train))[:count]
        faces = Faces(self.manifest.folder, [self.manifest.samples[index] for index in chosen], model.picture)
        return [batch.inputs for batch in every_face(faces, EVALUATION_BATCH, 0) if batch.indices]

    def batches(self, model: AgeModel, train: Sequence[int], stream: Stream) -> Iterable[Batch]:
        """Augmented pixels (B, 3, H, W), uint8, of the samples that a stream draws from `train`."""
        samples = [self.manifest.samples[index] for index in train]
        augment = augmentation(self.config.data.augment, model.picture, self.config.data.mask)
        faces = Faces(self.manifest.folder, samples, model.picture, augment, stream.seed)
        return training_batches(faces, stream, self.workers, self.pin)

    def units(self, model: AgeModel, indices: Sequence[int]) -> Units:
        """f(x) of these samples, read and run through the network batch by batch."""
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
        """f alone, after standardisation: features (B, D) -> (B, M)."""
        return model.head

    def trained(self, model: AgeModel) -> list[Part]:
        """f alone."""
        return [Part(list(model.f.parameters()))]

    def batches(self, model: AgeModel, train: Sequence[int], stream: Stream) -> Iterable[Batch]:
        """Features (B, D) of the samples that a stream draws from `train`, all of them readable."""
        return feature_batches(self.features.values[list(train)], self.ages[list(train)], stream)

    def standardise(self, model: AgeModel, train: Sequence[int]) -> None:
        """Standardise f's inputs by the features of the whole training part."""
        standardise(model, self.features.values[list(train)])

    def thin(self, model: AgeModel, train: Sequence[int]) -> None:
        """Not called: the features are those of the whole backbone, and `first_model` raises InputError."""
        raise NotImplementedError

    def start_integers(self, model: AgeModel, train: Sequence[int]) -> None:
        """Not called: the features are those of the float layers, and `first_model` raises InputError."""
        raise NotImplementedError

    def units(self, model: AgeModel, indices: Sequence[int]) -> Units:
        """f(x) of these samples, but for unreadable ones; `broken` are those of the whole manifest."""
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
