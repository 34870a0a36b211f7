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
    int8: Annotated[
        Path | None,
        typer.Option(metavar="FACES", help="Use 8-bit integers, calibrated on this folder of aligned faces."),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0, metavar="YEARS", help="With --int8: mean change of the ages that is accepted.")
    ] = 0.1,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write a model as one ONNX file, backbone and forest, which `predict` runs without torch.

    The file contains the age grid, the alignment and the calibration. It is compared with the checkpoint before it
    is written. With a .safetensors name it is a checkpoint of half the size. With --int8, as many layers are computed in
    8-bit integers as keep the mean change of the ages below --tolerance.
    """
    listen(quiet, verbose)
    from agecli.model.export import export as run

    difference = run(checkpoint, out=out, int8=int8, tolerance=tolerance, force=force)
    logging.getLogger("agecli").info(
        "wrote %s; its probabilities differ from the checkpoint's by at most %.1g", out, difference
    )
