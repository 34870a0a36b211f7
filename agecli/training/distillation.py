"""Distillation: a model learns the routing of a trained one, its teacher, beside the labels.

The teacher sees each face once, as it is and mirrored, and its units f(x) are averaged over both. The model sees augmented
views of the face, so that it learns to give the same answer for all of them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from agecli.core.errors import InputError
from agecli.datasets.manifest import Manifest
from agecli.forest.forests import Forest
from agecli.model.bundled import named
from agecli.model.checkpoint import load_checkpoint
from agecli.model.network import AgeModel
from agecli.training import distributed
from agecli.training.features import compute_features


def teacher_units(
    teacher: str,
    student: AgeModel,
    manifest: Manifest,
    train: Sequence[int],
    device: torch.device,
    workers: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Tensor:
    """f(x) of a teacher for the training faces, averaged over a face and its mirror image.   (n, M), float32, on the CPU

    teacher: `default` or a checkpoint, with the forest that the student has: the same trees, and the same phi.
    train: indices of the n training faces in the manifest; unreadable pictures have rows of NaN.
    Features are cached; of several ranks, the first one computes them. Raises InputError if the forests differ.
    """
    loaded = load_checkpoint(named(teacher, ".safetensors"))
    forest, mine = loaded.model.forest, student.forest
    if not isinstance(forest, Forest) or not isinstance(mine, Forest) or not torch.equal(forest.phi, mine.phi.cpu()):
        raise InputError(
            f"the forest of the teacher {teacher} differs from that of the model",
            hint=f"start from it with --init {teacher}, or train without training.teacher",
        )
    model = AgeModel(loaded.model.backbone, loaded.model.f, forest, loaded.model.picture, mirror=True)
    model.load_state_dict(loaded.model.state_dict())
    samples, name = [manifest.samples[index] for index in train], loaded.config.backbone.name
    if distributed.rank() > 0:
        distributed.barrier()
    features = compute_features(model, name, manifest.folder, samples, device, workers, progress)
    if distributed.rank() == 0:
        distributed.barrier()
    with torch.inference_mode():
        units: Tensor = model.head.eval()(features.values)
    return units.clone()
