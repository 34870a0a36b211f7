"""Predictors: a model as `predict` sees it, pixels in and distributions of ages out, whatever runs it.

An ONNX file runs on onnxruntime, and torch is never imported; a checkpoint runs on torch.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agecli.core.ages import AgeGrid, Readout
from agecli.core.errors import InputError, MissingError
from agecli.core.version import __version__
from agecli.images.alignment import Alignment
from agecli.images.reading import PictureSpec, Pixels
from agecli.scoring.calibration import Calibration

FORMAT = 1  # of the metadata in an ONNX file; raised when an older agecli could no longer read it
TOGETHER = 4  # faces in one run of a graph: more no longer fit into a CPU's cache, and take longer
METADATA = "agecli"  # the key under which an ONNX file keeps it


@dataclass(frozen=True)
class About:
    """All that has to be known to use a model, beside the model."""

    picture: PictureSpec
    grid: AgeGrid
    readout: Readout  # how it was trained to be read
    alignment: Alignment | None  # of the faces it was trained on, if that is known
    calibration: Calibration | None

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, "version": __version__, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> About:
        about: dict[str, Any] = json.loads(text)
        if about["format"] > FORMAT:
            raise InputError(
                f"it has format {about['format']}, and agecli {__version__} reads up to {FORMAT}",
                hint="it was made by a newer agecli: upgrade this one",
            )
        alignment = Alignment(**about["alignment"]) if about["alignment"] else None
        calibration = Calibration.read(about["calibration"])
        grid = AgeGrid(**about["grid"])
        return cls(PictureSpec.read(about["picture"]), grid, about["readout"], alignment, calibration)


class Predictor(Protocol):
    about: About

    def pmf(self, pixels: Pixels) -> NDArray[np.float32]:
        """(B, 3, H, W) -> (B, A)"""


class OnnxPredictor:
    """A model that `agecli export` wrote."""

    def __init__(self, path: Path, threads: int = 0) -> None:
        self.path, self.threads = path, threads  # 0: as many as there are cores
        try:
            self.session = self._open()
            self.about = About.from_json(self.session.get_modelmeta().custom_metadata_map[METADATA])
        except InputError as error:
            raise InputError(f"{path}: {error.message}", error.hint) from error
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} was not made by `agecli export`", hint="name one that was") from error
        except Exception as error:  # onnxruntime has a class of its own for each way a file can be damaged
            raise InputError(f"{path} is no whole ONNX file ({error})", hint="export or fetch it again") from error

    def _open(self, faces: int | None = None) -> Any:
        """The graph as it is for any number of faces, soon ready; or made quick for one that is always the same."""
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # other work wants the cores, too
        if faces:
            options.add_free_dimension_override_by_name("batch", faces)
        else:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        return ort.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])

    @cached_property
    def quick(self) -> Any:
        """For as many as are run together. One photo is done before this is ready: it pays when there are more."""
        return self._open(TOGETHER)

    def pmf(self, pixels: Pixels) -> NDArray[np.float32]:
        parts = [pixels[start : start + TOGETHER] for start in range(0, len(pixels), TOGETHER)]
        sessions = [self.quick if len(part) == TOGETHER else self.session for part in parts]
        said = [session.run(None, {"pixels": part})[0] for session, part in zip(sessions, parts, strict=True)]
        return np.concatenate(said)


class TorchPredictor:
    """A checkpoint that `agecli train` wrote."""

    def __init__(self, path: Path, device: str) -> None:
        from agecli.model.checkpoint import load_checkpoint  # torch loads here
        from agecli.model.devices import keep_memory, pick_device

        self.device = pick_device(device)
        keep_memory()
        checkpoint = load_checkpoint(path)
        self.model = checkpoint.model.to(self.device)
        self.about = checkpoint.about

    def pmf(self, pixels: Pixels) -> NDArray[np.float32]:
        import torch

        from agecli.model.devices import to_device

        with torch.inference_mode():
            pmf: NDArray[np.float32] = (
                self.model(to_device(torch.from_numpy(pixels), self.device)).float().cpu().numpy()
            )
        return pmf


def load_predictor(path: Path, device: str = "auto") -> Predictor:
    """The model in a file, by its kind."""
    if path.suffix != ".onnx":
        return TorchPredictor(path, device)
    if not path.is_file():
        raise MissingError(f"there is no model {path}", hint="`agecli export CHECKPOINT --out model.onnx` makes one")
    if device not in ("auto", "cpu"):
        raise InputError(f"{path} runs on the CPU, not on {device}", hint="use its checkpoint (.safetensors) for that")
    return OnnxPredictor(path)
