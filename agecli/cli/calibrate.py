"""`agecli calibrate`: new intervals for a model from labelled faces."""

from __future__ import annotations

import logging
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from agecli.cli.options import Align, Device, Exclude, Form, Output, Quiet, Verbose, form_of, listen


def calibrate(
    model: Annotated[Path, typer.Argument(help="A checkpoint, an exported model, or `default`.")],
    data: Annotated[Path, typer.Option(help="At least 30 labelled faces that the model was not trained on.")],
    out: Annotated[Path, typer.Option(help="The model file to write.")],
    exclude: Exclude = None,
    align: Align = False,
    device: Device = "auto",
    form: Form = None,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Adapt the intervals of a model to your photos, without training: from 30 labelled faces on.

    Also corrects its bias by age, if that lowers the error of faces it was not fitted on. Prints the accuracy before and
    after; the latter is cross-validated.   Example: agecli calibrate default --data aligned --out mine.onnx
    """
    listen(quiet, verbose)
    from agecli.evaluation.calibrate import calibrate as run
    from agecli.reports.tables import destination, write_rows

    result = run(model, data=data, out=out, exclude=exclude, align=align, device=device)
    rows = [
        {"model": name, "images": result.faces, **{key: round(value, 4) for key, value in asdict(accuracy).items()}}
        for name, accuracy in (("before", result.before), ("after", result.after))
    ]
    with destination(output, sys.stdout) as stream:
        write_rows(rows, ("model", "images", "mae", "bias", "coverage", "width"), form_of(form, output), stream)
    log = logging.getLogger("agecli")
    log.info(
        "the bias by age is %s",
        "corrected"
        if result.calibration.bias
        else "not corrected: that would not lower the error of faces other than those it is fitted on",
    )
    log.info("wrote %s", out)
