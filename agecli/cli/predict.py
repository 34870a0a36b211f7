"""`agecli predict`: options, progress and exit code."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer

from agecli.cli.options import DETECTORS, Device, Form, Output, Quiet, Verbose, form_of, listen

if TYPE_CHECKING:
    from agecli.cli.progress import Bars

FEW = 100  # records before progress is shown: rich takes time to load


Photos = Annotated[list[str], typer.Argument(help="Files, folders, globs, @list, or - for names on stdin.")]
Model = Annotated[
    Path | None,
    typer.Option(
        "--model", "-m", help="A checkpoint (.safetensors) or an exported model (.onnx).", show_default="default"
    ),
]
NoDetect = Annotated[bool, typer.Option("--no-detect", help="The photos are aligned faces already.")]
Detector = Annotated[str, typer.Option(help=DETECTORS)]
Largest = Annotated[bool, typer.Option("--largest", help="Only the main face of each photo: large and central.")]
MinFace = Annotated[int, typer.Option(min=0, help="Leave out faces smaller than this, in pixels.")]
MinScore = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Leave out faces with a lower detector score.", show_default="none"),
]
Fast = Annotated[bool, typer.Option("--fast", help="Look for large faces only, at 192 pixels.")]
Closer = Annotated[bool, typer.Option("--closer", help="Look for small faces in every photo, at up to 16 megapixels.")]
Readout = Annotated[
    str | None, typer.Option(help="Point estimate: mean, median or mode.", show_default="as the model was trained")
]
Null = Annotated[bool, typer.Option("--null", "-0", help="Names on stdin and in lists end with a null byte.")]
AbstainAbove = Annotated[
    float | None, typer.Option(min=0, help="Mark faces whose interval is wider than this.", metavar="YEARS")
]
Distribution = Annotated[bool, typer.Option("--distribution", help="Add the probability of each year of age.")]
Draw = Annotated[Path | None, typer.Option(help="Write copies of the photos with boxes and ages to this folder.")]
Every = Annotated[str, typer.Option(help="Time between two frames of a video: 1s, 500ms, 2m.")]
BatchSize = Annotated[int, typer.Option(help="Faces per batch.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes that read photos and find faces.", show_default="all cores")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an interrupted run with the same --output.")]


def predict(
    photos: Photos,
    model: Model = None,
    no_detect: NoDetect = False,
    detector: Detector = "auto",
    largest: Largest = False,
    min_face: MinFace = 0,
    min_score: MinScore = None,
    fast: Fast = False,
    closer: Closer = False,
    readout: Readout = None,
    null: Null = False,
    abstain_above: AbstainAbove = None,
    distribution: Distribution = False,
    draw: Draw = None,
    every: Every = "1s",
    batch_size: BatchSize = 32,
    workers: Workers = None,
    resume: Resume = False,
    device: Device = "auto",
    form: Form = None,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Estimate the age of every face in photos and videos, with a 90 % interval."""
    listen(quiet, verbose)
    from agecli.core.parallel import cores
    from agecli.prediction.predict import predict as run

    predictions = run(
        photos,
        model=model,
        no_detect=no_detect,
        detector=detector,
        largest=largest,
        min_face=min_face,
        min_score=min_score,
        looks=_looks(fast, closer),
        readout=readout,
        abstain_above=abstain_above,
        distribution=distribution,
        every=every,
        draw=draw,
        device=device,
        batch_size=batch_size,
        workers=workers or cores(),
        null=null,
    )
    hidden = quiet or (output is None and sys.stdout.isatty())  # records on the terminal are progress enough
    with LateBars(hidden) as progress:
        summary = predictions.save(
            output or sys.stdout, file_format=form_of(form, output), resume=resume, progress=progress
        )
    if summary.failed:
        typer.echo(summary.message, err=True)
    if summary.not_drawn:
        typer.echo(f"{summary.not_drawn} photo(s) could not be drawn", err=True)
    if not summary.ok:
        raise typer.Exit(1)


def _looks(fast: bool, closer: bool) -> str:
    """How closely large photos are searched. Raises InputError if both options are given."""
    from agecli.core.errors import InputError

    if fast and closer:
        raise InputError("--fast and --closer exclude each other", hint="choose one, or neither")
    return "fast" if fast else "closer" if closer else "auto"


class LateBars:
    """Progress on stderr that starts after FEW records."""

    def __init__(self, hidden: bool) -> None:
        self.hidden = hidden
        self.bars: Bars | None = None
        self.stack = ExitStack()

    def __enter__(self) -> LateBars:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    def __call__(self, done: int) -> None:
        """Show the number of faces so far."""
        if self.hidden or done <= FEW:
            return
        if self.bars is None:
            from agecli.cli.progress import Bars

            self.bars = self.stack.enter_context(Bars(quiet=False))
        self.bars.show("faces", done, None)
