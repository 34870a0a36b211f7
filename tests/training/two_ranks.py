"""Run by torchrun: `agecli train`, and afterwards each rank writes the weights and leaves that it ended with."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from safetensors.torch import save_file

from agecli.cli import main
from agecli.training import folds
from agecli.training.finishing import finish_fold
from agecli.training.fold_training import FoldTraining


def finish_and_write(training: FoldTraining) -> None:
    """Finish the fold, then write rank-N.safetensors: network, forest and EMA of this rank."""
    tensors, _ = training.learner.state()
    parts = ("network.", "forest.", "average.")
    tensors = {name: value.clone().contiguous() for name, value in tensors.items() if name.startswith(parts)}
    finish_fold(training)
    tensors |= {f"final.{name}": value.clone() for name, value in training.model.forest.state_dict().items()}
    save_file(tensors, Path(os.environ["RANK_FILES"]) / f"rank-{os.environ['RANK']}.safetensors")


if __name__ == "__main__":
    setattr(folds, "finish_fold", finish_and_write)  # noqa: B010
    sys.argv[0] = "agecli"
    main()
