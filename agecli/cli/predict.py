"""`agecli predict`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from agecli.cli.options import Device, Form, Output, Quiet, Verbose, form_of, listen
from agecli.core.errors import InputError, Interrupted
from agecli.core.files import file_hash, is_stream
from agecli.model.bundled import to_run
from agecli.prediction.journal import Journal, Row, Tally

FEW = 100  # records before progress is shown


def predict(
    photos: Annotated[list[str], typer.Argument(help="Files, folders, globs, @list, or - for names on stdin.")],
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", "-m", help="A checkpoint (.safetensors) or an exported model (.onnx).", show_default="default"
        ),
    ] = None,
    no_detect: Annotated[bool, typer.Option("--no-detect", help="The photos are aligned faces already.")] = False,
    detector: Annotated[str, typer.Option(help="auto, yunet-dlib, yunet, hog, cnn or haar.")] = "auto",
    largest: Annotated[bool, typer.Option("--largest", help="Only the largest face of a photo.")] = False,
    min_face: Annotated[int, typer.Option(min=0, help="Leave out faces smaller than so many pixels.")] = 0,
    min_score: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Leave out faces that the detector is less sure of.", show_default="none"),
    ] = None,
    readout: Annotated[str | None, typer.Option(help="mean, median or mode.", show_default="the model's own")] = None,
    null: Annotated[
        bool, typer.Option("--null", "-0", help="Names on stdin and in lists end with a null byte.")
    ] = False,
    abstain_above: Annotated[
        float | None,
        typer.Option(min=0, help="Mark faces whose interval is wider than so many years.", metavar="YEARS"),
    ] = None,
    distribution: Annotated[
        bool, typer.Option("--distribution", help="Add the probability of each year of age.")
    ] = False,
    draw: Annotated[Path | None, typer.Option(help="Write the photos into this folder, with their ages drawn.")] = None,
    every: Annotated[str, typer.Option(help="Of a video, a frame every so often: 1s, 500ms, 2m.")] = "1s",
    batch_size: Annotated[int, typer.Option(help="Faces that go through the network together.")] = 32,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that read photos and find faces.", show_default="all cores")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the stopped run that wrote to --output.")
    ] = False,
    device: Device = "auto",
    form: Form = None,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Estimate the age of every face in photos and videos, with a 90 % interval."""
    listen(quiet, verbose)
    from agecli.core.parallel import cores
    from agecli.prediction.predict import RECORD_COLUMNS
    from agecli.prediction.predict import predict as run
    from agecli.reports.tables import write_ages

    shape = form_of(form, output)
    choices: dict[str, Any] = {  # what the records depend on
        "model": to_run(model, device),
        "no_detect": no_detect,
        "detector": detector,
        "largest": largest,
        "min_face": min_face,
        "min_score": min_score,
        "readout": readout,
        "abstain_above": abstain_above,
        "distribution": distribution or shape == "table",  # which shows it as a bar
        "every": every,
    }
    asked = {"abstain": abstain_above is not None, "distribution": distribution}
    names = (*RECORD_COLUMNS, *(name for name, wanted in asked.items() if wanted))

    drawer: Drawer | None = None
    if draw:
        from agecli.prediction.drawing import Drawer

        drawer = Drawer(draw, every)

    def rows(done: Iterable[str] = ()) -> Iterator[dict[str, Any]]:
        records = run(
            photos,
            device=device,
            batch_size=batch_size,
            workers=workers or cores(),
            null=null,
            done=done,
            skip=draw,
            **choices,
        )
        return (record.row() for record in (drawer(records) if drawer else records))

    tally = Tally()
    if output is None:
        if resume:
            raise InputError("--resume needs the file that the stopped run wrote to", hint="name it with --output FILE")
        seen = sys.stdout.isatty()
        write_ages(tally(rows() if seen else _watched(rows(), quiet)), shape, names, sys.stdout)
    else:
        _into_file(output, rows, choices, resume, quiet, lambda said, file: write_ages(tally(said), shape, names, file))
    if not tally.inputs and not resume:
        logging.getLogger("agecli").warning("no photo was named: nothing was done")
    if tally.failed:
        typer.echo(str(tally), err=True)
    if drawer and drawer.failed:
        typer.echo(f"{drawer.failed} photo(s) could not be drawn", err=True)
    if tally.failed or (drawer and drawer.failed):
        raise typer.Exit(1)


def _into_file(
    output: Path,
    rows: Callable[[Iterable[str]], Iterator[Row]],
    choices: dict[str, Any],
    resume: bool,
    quiet: bool,
    write: Callable[[Iterator[Row], TextIO], None],
) -> None:
    """By way of a journal, so that a stopped run can go on. The file itself is written when all is known."""
    from agecli.reports.tables import destination

    log, model = logging.getLogger("agecli"), choices["model"]
    if output.is_dir():
        raise InputError(f"{output} is a folder", hint=f"name a file in it: --output {output / 'ages.jsonl'}")
    if resume and output.exists() and not Journal.beside(output).exists():
        log.warning("%s is finished: nothing was done. To predict again, remove it or leave out --resume", output)
        return
    if is_stream(output):  # nothing to go on with
        with destination(output, sys.stdout) as file:
            write(_watched(rows(()), quiet), file)
        return
    about = {**choices, "model": file_hash(model) if model.is_file() else ""}
    with Journal(output, about, resume) as journal:
        if journal.inputs:
            log.info("going on after %d inputs", journal.inputs)
        try:
            for row in _watched(rows(journal.done()), quiet):
                journal.add(row)
        except KeyboardInterrupt:
            if not any(journal.rows()):
                raise
            kept = f"stopped; what is known so far is in {journal.path}"
            raise Interrupted(kept, hint="go on with the same command and --resume") from None
        with destination(output, sys.stdout) as file:
            write(journal.rows(), file)
        journal.finish()
    log.info("wrote %s", output)


def _watched(rows: Iterable[Row], quiet: bool) -> Iterator[Row]:
    """With progress, once there is so much of it that somebody may wait."""
    with ExitStack() as stack:
        bars: Any = None
        for done, row in enumerate(rows, 1):
            if done > FEW:
                if bars is None:
                    from agecli.cli.progress import Bars

                    bars = stack.enter_context(Bars(quiet))
                bars.show("faces", done, None)
            yield row
