"""`agecli preprocess`."""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from agecli.cli.shard_options import Cluster, Script, Shard, Shards, ShardSize

if TYPE_CHECKING:
    from agecli.datasets.crop_tables import Summary

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
    pack: Annotated[
        bool,
        typer.Option(
            "--pack",
            help="Write WebDataset tars of 1000 photos each, or a tar for each shard, instead of a file per face.",
        ),
    ] = False,
    workers: Annotated[int | None, typer.Option(help="Number of processes.", show_default="1")] = None,
    max_memory: MaxMemory = MAX_MEMORY,
    timeout: Timeout = TIMEOUT,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Detect faces, but write nothing.")] = False,
    contact_sheet: Annotated[Path | None, typer.Option(help="Draw a sample of the crops into this image.")] = None,
    shards: Shards = None,
    shard_size: ShardSize = None,
    shard: Shard = None,
    cluster: Cluster = None,
    script: Script = None,
    form: Form = None,
    output: Output = None,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Detect the faces in photos and align them, so that the eyes are always in the same place.

    Prints the numbers of photos, faces and failures. Exits with 1 if some photos gave no face; failures.csv lists them.

    With --shards or --pack, any number of processes share the work, and the same command continues it; `agecli status DIR`.

    Example: agecli preprocess FG-NET --out aligned --workers 4
    """
    listen(quiet, verbose)
    from agecli.reports.tables import destination, write_rows

    summary: Summary | None
    if pack or shards or shard_size or shard or cluster or script:
        from agecli.cli.crop_shards import crop_shards

        numbers = {"size": size, "eye_distance": eye_distance, "eye_height": eye_height}
        crops = {
            "dataset": dataset,
            "detector": detector,
            "target": target,
            "given": {name: value for name, value in numbers.items() if value is not None},
            "no_detect": no_detect,
            "all_faces": all_faces,
            "pack": pack,
        }
        partial_run = shard is not None or script is not None
        given = {"--dry-run": dry_run, "--contact-sheet": contact_sheet and partial_run}
        summary = crop_shards(
            *(src, out, crops),
            excluded=[name for name, value in given.items() if value],
            shards=shards,
            shard_size=shard_size,
            shard=shard,
            cluster=cluster,
            script=script.value if script else None,
            contact_sheet=contact_sheet,
            force=force,
            quiet=quiet,
            workers=workers,
            max_memory=max_memory,
            timeout=timeout,
            recognised=partial(_report_source, src),
        )
        if summary is None:
            return
    else:
        from agecli.cli.progress import Bars
        from agecli.datasets.preprocessing import preprocess as run

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
                workers=1 if workers is None else workers,
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
