"""agecli: the age of a face, by Deep Differentiable Random Forests.

The verbs of the command line as Python functions: `agecli.preprocess(...)`, `agecli.train(...)`, …
They are loaded when they are first used, so that `import agecli` stays quick.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agecli.auditing import audit as audit
    from agecli.evaluation import evaluate as evaluate
    from agecli.exporting import export as export
    from agecli.inspection import inspect as inspect
    from agecli.prediction import predict as predict
    from agecli.preprocessing import preprocess as preprocess
    from agecli.splitting import split as split
    from agecli.studies.running import study as study
    from agecli.training import train as train

# Two OpenMP threads that spin while they wait are up to ten times slower than one on a busy machine. Read by the
# OpenMP runtime when torch loads it, so it has to be set here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.1.0"
__all__ = ["__version__", "audit", "evaluate", "export", "inspect", "predict", "preprocess", "split", "study", "train"]

_VERBS = {
    "preprocess": "preprocessing",
    "audit": "auditing",
    "split": "splitting",
    "train": "training",
    "evaluate": "evaluation",
    "predict": "prediction",
    "export": "exporting",
    "study": "studies.running",
    "inspect": "inspection",
}


def __getattr__(name: str) -> Any:
    if name not in _VERBS:
        raise AttributeError(f"module `agecli` has no attribute `{name}`")
    from importlib import import_module

    return getattr(import_module(f"agecli.{_VERBS[name]}"), name)
