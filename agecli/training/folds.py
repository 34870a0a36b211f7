"""One fold: a model is trained, selected and tested."""

from __future__ import annotations

from agecli.core.errors import TrainingError
from agecli.datasets.protocols import Fold
from agecli.training.context import RunContext
from agecli.training.finishing import finish_fold
from agecli.training.fold_training import FoldTraining


def train_fold(context: RunContext, fold: Fold) -> None:
    """Train, select and test one fold, resumed where it was stopped.

    Raises TrainingError if the loss or the weights are not finite, with the last good checkpoint in its message, and
    Interrupted if the run is to stop.
    """
    training = FoldTraining(context, fold)
    try:
        training.learn()
        finish_fold(training)
    except TrainingError as error:
        training.write_history()
        last = training.folder / "last.safetensors"
        kept = f"the last good checkpoint is {last}" if last.exists() else "no checkpoint had been saved yet"
        raise TrainingError(f"{error.message}; {kept}", error.hint) from error
