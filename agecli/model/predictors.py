"""Predictors: a model file ready to run, pixels in and age distributions out.

An ONNX file runs on onnxruntime and never imports torch; a checkpoint (.safetensors) runs on torch.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agecli.core.errors import InputError, MissingError
from agecli.core.extras import require
from agecli.core.futures import results
from agecli.core.parallel import cores
from agecli.core.reading import shown
from agecli.core.signals import deferred_signals
from agecli.images.reading import Pixels
from agecli.model.bundled import FOLDERS, check_checkpoint_file
from agecli.model.card import Card
from agecli.model.onnx_check import check_graph

METADATA = "agecli"  # the key of the model card in the metadata of an ONNX file
ONNX_BATCH = 4  # faces per run of the ONNX graph: larger batches exceed a CPU's cache and take longer per face


class Predictor(Protocol):
    """A loaded model: `OnnxPredictor` or `TorchPredictor`."""

    card: Card

    def load(self) -> None:
        """Load the network, if this has not been done. Any thread may call it. Raises InputError if the file is damaged."""

    def pmf(self, pixels: Pixels) -> NDArray[np.float32]:
        """The age distribution of each face.   (B, 3, H, W) uint8, H = W = card.picture.size -> (B, A), rows sum to 1"""


class OnnxPredictor:
    """An ONNX file made by `agecli export`, on onnxruntime's CPU provider.

    path: the .onnx file;   threads: batches of ONNX_BATCH faces that run at a time, 0 for one per core.
    Raises InputError if the file is damaged, was not made by `agecli export`, or was made by a newer agecli. The network
    is loaded by `load`, or when it is first used.
    """

    def __init__(self, path: Path, threads: int = 0) -> None:
        self.path, self.threads = path, threads or cores()
        self.lock = Lock()
        self.session: Any = None  # of onnxruntime
        metadata = check_graph(path)
        try:
            self.card = Card.from_json(metadata[METADATA])
        except InputError as error:
            raise InputError(f"{path}: {error.message}", error.hint) from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._foreign() from error

    def load(self) -> None:
        """Import onnxruntime and open a session, if this has not been done. Any thread may call it.

        Raises InputError if the file is damaged, or was not made by `agecli export`.
        """
        with self.lock:
            if self.session is None:
                self.session = self._open()

    def _open(self) -> Any:
        """A session for any batch size. Each run has one thread: with more, a sum is split by the number of cores."""
        with deferred_signals():  # an interrupted import of onnxruntime raises ImportError
            import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        try:
            session = ort.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has a class of its own for each way a file can be damaged
            raise InputError(
                f"{self.path} is not a complete ONNX file ({shown(error)})", hint="export or download it again"
            ) from error
        if [given.name for given in session.get_inputs()] != ["pixels"]:
            raise self._foreign()
        return session

    def _foreign(self) -> InputError:
        """The error for an ONNX file of another program."""
        return InputError(f"{self.path} was not made by `agecli export`", hint="use a model that was")

    def pmf(self, pixels: Pixels) -> NDArray[np.float32]:
        """The age distribution of each face.   (B, 3, H, W) uint8 -> (B, A)

        A face gives the same bits in any batch and on any number of cores. An odd number of faces is run with one more,
        because the matrix products of one and of three rows have kernels of their own, which round differently.
        """
        count = len(pixels)
        if count % 2 == 1:
            pixels = np.concatenate((pixels, pixels[-1:]))
        parts = [pixels[start : start + ONNX_BATCH] for start in range(0, len(pixels), ONNX_BATCH)]
        if self.threads == 1 or len(parts) == 1:
            return np.concatenate([*map(self._run, parts)])[:count]
        return np.concatenate(results(self._threads, self._run, parts))[:count]

    def _run(self, pixels: Pixels) -> NDArray[np.float32]:
        """The same for at most ONNX_BATCH faces, in this thread."""
        self.load()
        pmf: NDArray[np.float32] = self.session.run(None, {"pixels": pixels})[0]
        return pmf

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        """Threads, started when there is more than one batch: onnxruntime leaves Python to others while it computes."""
        return ThreadPoolExecutor(self.threads, "agecli-network")


class TorchPredictor:
    """A checkpoint made by `agecli train`, on a torch device.

    path: the .safetensors file;   device: auto, cpu, cuda, cuda:N or mps.
    Raises MissingError if the file, the device or torch is not there, InputError if the file is not a checkpoint.
    """

    def __init__(self, path: Path, device: str) -> None:
        check_checkpoint_file(path)
        bundled = path.parent in FOLDERS  # chosen because of the device, not named by the user
        require(
            *("torch", "torchvision", "timm", "safetensors"),
            needed_by=f"--device {device}" if bundled else f"the checkpoint {path}",
        )
        from agecli.model.checkpoint import load_checkpoint  # imports torch
        from agecli.model.devices import keep_memory, pick_device

        self.device = pick_device(device)
        keep_memory()
        checkpoint = load_checkpoint(path)
        self.model = checkpoint.model.to(self.device)
        self.card = checkpoint.card

    def load(self) -> None:
        """Nothing: the network is in memory."""

    def pmf(self, pixels: Pixels) -> NDArray[np.float32]:
        """The age distribution of each face.   (B, 3, H, W) uint8 -> (B, A)"""
        import torch

        from agecli.model.devices import to_device

        with torch.inference_mode():
            pmf: NDArray[np.float32] = (
                self.model(to_device(torch.from_numpy(pixels), self.device)).float().cpu().numpy()
            )
        return pmf


def load_predictor(path: Path, device: str = "auto", threads: int = 0) -> Predictor:
    """Load a model file: .onnx on onnxruntime, anything else as a checkpoint on torch.

    threads: of an ONNX model, 0 for one per core.

    Raises MissingError if the file, the device or torch is not there, InputError if the file is no model or cannot run on
    `device`.   Example: `load_predictor(Path("model.onnx")).pmf(pixels)`
    """
    if path.suffix != ".onnx":
        return TorchPredictor(path, device)
    if not path.is_file():
        raise MissingError(f"there is no model {path}", hint="`agecli export CHECKPOINT --out model.onnx` makes one")
    if device not in ("auto", "cpu"):
        raise InputError(
            f"{path} runs on the CPU, not on {device}", hint="use its checkpoint (.safetensors) on other devices"
        )
    return OnnxPredictor(path, threads)
