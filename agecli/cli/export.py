"""`agecli export`: write a checkpoint as ONNX."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from agecli.cli.options import Quiet, Verbose, listen
from agecli.cli.outputs import Force


def export(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint made by `agecli train`, or `default`.")],
    out: Annotated[Path, typer.Option(help="The file to write: .onnx, or .safetensors for float16 weights.")] = Path(
        "model.onnx"
    ),
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write a model as one ONNX file, backbone and forest, which `predict` runs without torch.

    The file contains the age grid, the alignment and the calibration. It is compared with the checkpoint before it
    is written. With a .safetensors name it is a checkpoint of half the size.
    """
    listen(quiet, verbose)
    from agecli.model.export import export as run

    difference = run(checkpoint, out=out, force=force)
    logging.getLogger("agecli").info(
        "wrote %s; its probabilities differ from the checkpoint's by at most %.1g", out, difference
    )
