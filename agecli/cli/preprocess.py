"""`agecli preprocess`."""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from agecli.cli.options import (
    DATASETS,
    DETECTORS,
    MAX_MEMORY,
    TIMEOUT,
    Form,
    MaxMemory,
    Output,
    Quiet,
    Timeout,
    Verbose,
    form_of,
    listen,
)
from agecli.cli.outputs import Force

log = logging.getLogger("agecli")


def preprocess(
    src: Annotated[Path, typer.Argument(help="A data set, or any folder of photos.")],
    out: Annotated[Path, typer.Option(help="Folder for crops, manifest.csv and failures.csv.")],
    dataset: Annotated[str, typer.Option(help=DATASETS)] = "auto",
    detector: Annotated[str, typer.Option(help=DETECTORS)] = "auto",
    target: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="BACKBONE|MODEL", help="Align as this backbone, or this trained model, needs it."
        ),
    ] = None,
    size: Annotated[int | None, typer.Option(help="Side of a crop, in pixels.", show_default="256")] = None,
    eye_distance: Annotated[
        float | None, typer.Option(help="Between the eyes, as a share of the side.", show_default="0.342")
    ] = None,
    eye_height: Annotated[
        float | None, typer.Option(help="From the top to the eyes, as a share of the side.", show_default="0.312")
    ] = None,
    no_detect: Annotated[
        bool, typer.Option("--no-detect", help="The photos are aligned faces already: only resize them.")
    ] = False,
    all_faces: Annotated[
        bool, typer.Option("--all-faces", help="Crop every face of a photo, not only the main one (large and central).")
    ] = False,
    workers: Annotated[int, typer.Option(help="Number of processes.")] = 1,
    max_memory: MaxMemory = MAX_MEMORY,
    timeout: Timeout = TIMEOUT,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Detect faces, but write nothing.")] = False,
    contact_sheet: Annotated[Path | None, typer.Option(help="Draw a sample of the crops into this image.")] = None,
    form: Form = None,
    output: Output = None,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Detect the faces in photos and align them, so that the eyes are always in the same place.

    Prints the numbers of photos, faces and failures. Exits with 1 if some photos gave no face; failures.csv lists them.

    Example: agecli preprocess FG-NET --out aligned --workers 4
    """
    listen(quiet, verbose)
    from agecli.cli.progress import Bars
    from agecli.datasets.preprocessing import preprocess as run
    from agecli.reports.tables import destination, write_rows

    with Bars(quiet) as bars:
        summary = run(
            src,
            out=out,
            dataset=dataset,
            detector=detector,
            target=target,
            size=size,
            eye_distance=eye_distance,
            eye_height=eye_height,
            no_detect=no_detect,
            all_faces=all_faces,
            workers=workers,
            max_memory=max_memory,
            timeout=timeout,
            resume=resume,
            dry_run=dry_run,
            contact_sheet=contact_sheet,
            force=force,
            progress=partial(bars.show, "photos"),
            recognised=partial(_report_source, src),
        )
    with destination(output, sys.stdout) as stream:
        write_rows(summary.rows(), ("what", "count"), form_of(form, output), stream)
    if summary.failures:
        if not dry_run:
            log.warning(
                "%d photos gave no aligned face: %s has the reasons",
                sum(summary.failures.values()),
                out / "failures.csv",
            )
        raise typer.Exit(1)


def _report_source(src: Path, name: str, photos: int) -> None:
    log.info("%s: %d photos, recognised as %s", src, photos, name)
    if name == "folder":
        log.warning("no photo has an age: to train on them, put a labels.csv (path,age) into %s first", src)
