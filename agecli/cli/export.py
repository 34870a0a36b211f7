"""`agecli export`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from agecli.cli.options import Quiet, Verbose, listen


def export(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint made by `agecli train`.")],
    out: Annotated[Path, typer.Option(help="The file to write: .onnx, or .safetensors for 16 bits.")] = Path(
        "model.onnx"
    ),
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write a model as one ONNX file, forest included, which `predict` runs without torch.

    Its age grid, crop and calibration travel in it. It is compared with torch before it is written. As .safetensors it
    is a checkpoint of half the size.
    """
    listen(quiet, verbose)
    from agecli.model.export import export as run

    apart = run(checkpoint, out=out)
    logging.getLogger("agecli").info(
        "wrote %s; its probabilities differ from the checkpoint's by %.1g at most", out, apart
    )
