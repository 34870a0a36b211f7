"""agecli: the age of a face, by Deep Differentiable Random Forests.

The commands as Python functions of the same names, `agecli.predict("photo.jpg")`, and a model that stays in memory,
`agecli.load()`. docs/python.md shows how to use them. Modules are loaded when they are first used: `import agecli`
itself is quick and imports neither torch nor numpy.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from agecli.core.version import __version__

if TYPE_CHECKING:
    from agecli.core.config import Config as Config
    from agecli.core.errors import AgecliError as AgecliError
    from agecli.core.errors import InputError as InputError
    from agecli.core.errors import Interrupted as Interrupted
    from agecli.core.errors import MissingError as MissingError
    from agecli.core.errors import TrainingError as TrainingError
    from agecli.core.records import Record as Record
    from agecli.datasets.auditing import audit as audit
    from agecli.datasets.preprocessing import preprocess as preprocess
    from agecli.datasets.splitting import split as split
    from agecli.evaluation.calibrate import calibrate as calibrate
    from agecli.evaluation.evaluate import evaluate as evaluate
    from agecli.evaluation.inspect import inspect as inspect
    from agecli.model.export import export as export
    from agecli.prediction.estimator import Estimator as Estimator
    from agecli.prediction.estimator import load as load
    from agecli.prediction.marking import draw as draw
    from agecli.prediction.merging import merge as merge
    from agecli.prediction.predict import predict as predict
    from agecli.prediction.predictions import Predictions as Predictions
    from agecli.prediction.predictions import Summary as Summary
    from agecli.scaling.state import status as status
    from agecli.serving.serve import serve as serve
    from agecli.studies.study import study as study
    from agecli.training.train import train as train

# On a busy machine, OpenMP threads that spin while they wait are up to ten times slower than one thread. The OpenMP
# runtime reads this when torch loads it, so it has to be set here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_MODULES = {  # of each public name; the imports above say the same to type checkers
    "AgecliError": "core.errors",
    "Config": "core.config",
    "Estimator": "prediction.estimator",
    "InputError": "core.errors",
    "Interrupted": "core.errors",
    "MissingError": "core.errors",
    "Predictions": "prediction.predictions",
    "Record": "core.records",
    "Summary": "prediction.predictions",
    "TrainingError": "core.errors",
    "audit": "datasets.auditing",
    "calibrate": "evaluation.calibrate",
    "draw": "prediction.marking",
    "evaluate": "evaluation.evaluate",
    "export": "model.export",
    "inspect": "evaluation.inspect",
    "load": "prediction.estimator",
    "merge": "prediction.merging",
    "predict": "prediction.predict",
    "preprocess": "datasets.preprocessing",
    "serve": "serving.serve",
    "split": "datasets.splitting",
    "status": "scaling.state",
    "study": "studies.study",
    "train": "training.train",
}
__all__ = [
    "AgecliError",
    "Config",
    "Estimator",
    "InputError",
    "Interrupted",
    "MissingError",
    "Predictions",
    "Record",
    "Summary",
    "TrainingError",
    "__version__",
    "audit",
    "calibrate",
    "draw",
    "evaluate",
    "export",
    "inspect",
    "load",
    "merge",
    "predict",
    "preprocess",
    "serve",
    "split",
    "status",
    "study",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module `agecli` has no attribute `{name}`")
    from importlib import import_module

    from agecli.core.extras import explain

    try:
        return getattr(import_module(f"agecli.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        missing = explain(error, f"`agecli.{name}`")
        if missing is None:
            raise
        return _unavailable(name, missing)


def _unavailable(name: str, missing: AgecliError) -> Any:
    """A function that stands for one whose extra is not installed: `help` works, and a call raises MissingError."""

    def function(*arguments: object, **options: object) -> None:
        raise missing

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Not available: {missing.message}. To install it: {missing.hint}"
    return function


def __dir__() -> list[str]:
    """The public names, for `dir(agecli)` and completion in notebooks."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
