"""agecli: the age of a face, by Deep Differentiable Random Forests.

The verbs of the command line as Python functions: `agecli.preprocess(...)`, `agecli.train(...)`, …
They are loaded when they are first used, so that `import agecli` stays quick.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from agecli.core.version import __version__

if TYPE_CHECKING:
    from agecli.datasets.auditing import audit as audit
    from agecli.datasets.preprocessing import preprocess as preprocess
    from agecli.datasets.splitting import split as split
    from agecli.evaluation.evaluate import evaluate as evaluate
    from agecli.evaluation.inspect import inspect as inspect
    from agecli.model.export import export as export
    from agecli.prediction.predict import predict as predict
    from agecli.studies.study import study as study
    from agecli.training.train import train as train

# Two OpenMP threads that spin while they wait are up to ten times slower than one on a busy machine. Read by the
# OpenMP runtime when torch loads it, so it has to be set here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__all__ = ["__version__", "audit", "evaluate", "export", "inspect", "predict", "preprocess", "split", "study", "train"]

_VERBS = {
    "preprocess": "datasets.preprocessing",
    "audit": "datasets.auditing",
    "split": "datasets.splitting",
    "train": "training.train",
    "evaluate": "evaluation.evaluate",
    "predict": "prediction.predict",
    "export": "model.export",
    "study": "studies.study",
    "inspect": "evaluation.inspect",
}


def __getattr__(name: str) -> Any:
    if name not in _VERBS:
        raise AttributeError(f"module `agecli` has no attribute `{name}`")
    from importlib import import_module

    from agecli.core.extras import explain

    try:
        return getattr(import_module(f"agecli.{_VERBS[name]}"), name)
    except ModuleNotFoundError as error:
        raise explain(error, f"`agecli.{name}`") or error from None
