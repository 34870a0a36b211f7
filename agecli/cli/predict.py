"""`agecli predict`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from agecli.cli.options import Device, Form, Output, Quiet, Verbose, form_of, listen


def predict(
    photos: Annotated[list[str], typer.Argument(help="Files, folders, globs, @list, or - for names on stdin.")],
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="A checkpoint (.safetensors), or an exported model (.onnx).")
    ] = None,
    no_detect: Annotated[bool, typer.Option("--no-detect", help="The photos are aligned faces already.")] = False,
    detector: Annotated[str, typer.Option(help="auto, yunet-dlib, yunet, hog, cnn or haar.")] = "auto",
    largest: Annotated[bool, typer.Option("--largest", help="Only the largest face of a photo.")] = False,
    min_face: Annotated[int, typer.Option(help="Leave out faces smaller than so many pixels.")] = 0,
    min_score: Annotated[float, typer.Option(help="Leave out faces that the detector is less sure of.")] = 0.0,
    readout: Annotated[
        str | None, typer.Option(help="mean, median or mode.", show_default="the paper's for the model")
    ] = None,
    null: Annotated[
        bool, typer.Option("--null", "-0", help="Names on stdin and in lists end with a null byte.")
    ] = False,
    abstain_above: Annotated[
        float | None, typer.Option(help="Mark faces whose interval is wider than so many years.", metavar="YEARS")
    ] = None,
    distribution: Annotated[
        bool, typer.Option("--distribution", help="Add the probability of each year of age.")
    ] = False,
    batch_size: Annotated[int, typer.Option(help="Faces that go through the network together.")] = 32,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that read photos and find faces.", show_default="all cores")
    ] = None,
    device: Device = "auto",
    form: Form = None,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Estimate the age of every face, with a 90 % interval."""
    listen(quiet, verbose)
    from agecli.prediction import RECORD_COLUMNS
    from agecli.prediction import predict as run
    from agecli.report import destination, write_ages

    records = run(
        photos,
        model=model,
        no_detect=no_detect,
        detector=detector,
        largest=largest,
        min_face=min_face,
        min_score=min_score,
        readout=readout,
        abstain_above=abstain_above,
        distribution=distribution,
        device=device,
        batch_size=batch_size,
        workers=workers,
        null=null,
    )
    asked = {"abstain": abstain_above is not None, "distribution": distribution}
    names = (*RECORD_COLUMNS, *(name for name, wanted in asked.items() if wanted))
    failed = 0

    def rows() -> Any:
        nonlocal failed
        for record in records:
            failed += record.status != "ok"
            yield record.row()

    with destination(output, sys.stdout) as stream:
        write_ages(rows(), form_of(form, output), names, stream)
    if failed:
        typer.echo(f"{failed} photo(s) gave no age", err=True)
        raise typer.Exit(1)
