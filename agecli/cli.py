"""The command line: thin commands over the functions of the same names, and one error boundary.

Nothing here imports torch before a command needs it, so that --help and completion answer at once.
"""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from agecli import __version__
from agecli.errors import AgecliError, Interrupted


class Boundary(typer.core.TyperGroup):
    """Where errors end: what a user can mend is printed in two lines, anything else is our bug and keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except AgecliError as error:
            _say_error(error)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            _say_error(Interrupted("interrupted"))
            raise typer.Exit(Interrupted.exit_code) from None
        except BrokenPipeError:  # `agecli predict … | head -1`: the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except OSError as error:
            if not error.filename:
                raise
            hint = "is it the path you meant, and may it be written?"
            _say_error(AgecliError(f"{error.filename}: {error.strerror}", hint))
            raise typer.Exit(AgecliError.exit_code) from None


def _say_error(error: AgecliError) -> None:
    typer.echo(f"error: {error.message}", err=True)
    if error.hint:
        typer.echo(f" hint: {error.hint}", err=True)


app = typer.Typer(
    cls=Boundary,
    help="The age of a face, by Deep Differentiable Random Forests.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Format(str, Enum):
    table = "table"
    csv = "csv"
    jsonl = "jsonl"


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors on stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="More on stderr.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
Workers = Annotated[int | None, typer.Option(min=0, help="Processes that read pictures.", show_default="by device")]
Form = Annotated[
    Format | None, typer.Option("--format", "-f", help="How to print.", show_default="table on a terminal, else jsonl")
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the result to a file, whole or not at all.")]
SETUPS = "The protocol: random, I, II, III, lopo, cacd-train, cacd-val, subject or column."
DATASETS = "auto, morph, fgnet, cacd, utkface, afad, aaf, agedb, appa-real, chalearn, imdb-wiki, csv or folder."
SHOWN_FOLDS = 5  # in a table, of a setup that has many
List = Annotated[
    Path | None, typer.Option("--list", help="Only these photos: a file of names, or a CSV with a column path.")
]
Exclude = Annotated[Path | None, typer.Option(help="All but these photos, as `audit` writes them.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any other setting, section.key=value. `agecli info --settings` lists them."),
]


def _form(form: Format | None, output: Path | None) -> str:
    if form:
        return form.value
    if output and output.suffix in (".csv", ".jsonl"):
        return output.suffix[1:]
    return "table" if output is None and sys.stdout.isatty() else "jsonl"


def _listen(quiet: bool, verbose: bool) -> Any:
    from agecli import console

    screen = console.stderr()
    console.set_up_logging(screen, logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO)
    return screen


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"agecli {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The age of a face, by Deep Differentiable Random Forests."""


@app.command()
def preprocess(
    src: Annotated[Path, typer.Argument(help="A data set, or any folder of photos.")],
    out: Annotated[Path, typer.Option(help="The folder for crops, manifest.csv and failures.csv.")],
    dataset: Annotated[str, typer.Option(help=DATASETS)] = "auto",
    detector: Annotated[str, typer.Option(help="auto, yunet-dlib, yunet, hog, cnn or haar.")] = "auto",
    size: Annotated[int, typer.Option(help="Side of a crop, in pixels.")] = 256,
    eye_distance: Annotated[float, typer.Option(help="Between the eyes, as a share of the side.")] = 0.30,
    eye_height: Annotated[float, typer.Option(help="Of the eye line below the top, as a share of the side.")] = 0.41,
    no_detect: Annotated[
        bool, typer.Option("--no-detect", help="The photos are aligned faces already: only resize.")
    ] = False,
    all_faces: Annotated[
        bool, typer.Option("--all-faces", help="Every face of a photo, not only the main one.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Processes.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Skip what is done.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look, but write nothing.")] = False,
    contact_sheet: Annotated[Path | None, typer.Option(help="Draw a sample of the crops with the eye line.")] = None,
    form: Form = None,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Find the faces in photos, turn and cut them so that the eyes are always in the same place."""
    screen = _listen(quiet, verbose)
    from agecli.console import Bars
    from agecli.preprocessing import preprocess as run
    from agecli.report import destination, write_rows

    log = logging.getLogger("agecli")
    with Bars(screen, quiet) as bars:
        summary = run(
            src,
            out=out,
            dataset=dataset,
            detector=detector,
            size=size,
            eye_distance=eye_distance,
            eye_height=eye_height,
            no_detect=no_detect,
            all_faces=all_faces,
            workers=workers,
            resume=resume,
            dry_run=dry_run,
            contact_sheet=contact_sheet,
            progress=lambda done, total: bars.show("photos", done, total),
            recognised=lambda name, photos: log.info("%s: %d photos, recognised as %s", src, photos, name),
        )
    with destination(output, sys.stdout) as stream:
        write_rows(summary.rows(), ("what", "count"), _form(form, output), stream)
    if summary.failures:
        if not dry_run:
            log.warning("%d photos gave no face: see %s", sum(summary.failures.values()), out / "failures.csv")
        raise typer.Exit(1)


@app.command()
def train(
    data: Annotated[
        Path | None, typer.Option(help="Folder with a manifest.csv or a labels.csv.", show_default="aligned")
    ] = None,
    model: Annotated[str | None, typer.Option(help="drf or dldlf.", show_default="drf")] = None,
    setup: Annotated[str | None, typer.Option(help=SETUPS, show_default="random")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder.", show_default="runs/<model>-<setup>")] = None,
    preset: Annotated[
        str | None, typer.Option(help="modern, or paper for the paper's settings.", show_default="modern")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings over the preset.")] = None,
    backbone: Annotated[
        str | None, typer.Option(help="vgg16, resnet18, … or timm:NAME.", show_default="timm:tf_efficientnet_lite0")
    ] = None,
    weights: Annotated[str | None, typer.Option(help="imagenet, none or a file.", show_default="imagenet")] = None,
    freeze: Annotated[
        bool | None,
        typer.Option("--freeze", help="Keep the backbone as it is: its features are computed once, and cached."),
    ] = None,
    iterations: Annotated[int | None, typer.Option(help="Mini-batches to learn from.", show_default="3000")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Faces in a mini-batch.", show_default="32")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.", show_default="0.001")] = None,
    trees: Annotated[int | None, typer.Option(help="K.", show_default="5")] = None,
    depth: Annotated[int | None, typer.Option(help="Levels of nodes, the leaves included.", show_default="6")] = None,
    units: Annotated[int | None, typer.Option(help="M, the outputs of f.", show_default="128")] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Std of a label distribution, in years (dldlf).", show_default="2")
    ] = None,
    leaf_init: Annotated[str | None, typer.Option(help="random or kmeans (drf).", show_default="random")] = None,
    split_temperature: Annotated[float | None, typer.Option(help="T_0.", show_default="1")] = None,
    leaf_temperature: Annotated[float | None, typer.Option(help="tau_0 (drf).", show_default="0.5")] = None,
    select: Annotated[
        str | None, typer.Option(help="The checkpoint to test: val (the best) or last.", show_default="val")
    ] = None,
    folds: Annotated[str | None, typer.Option(help="Only these, as in 1-3,5.", show_default="all")] = None,
    seed: Annotated[int | None, typer.Option(help="Of all random numbers.", show_default="0")] = None,
    list_: List = None,
    exclude: Exclude = None,
    set_: Settings = None,
    device: Device = "auto",
    workers: Workers = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out as if it had never stopped.")
    ] = False,
    form: Form = None,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train a model on faces with ages, for every fold of a setup.

    Writes the run folder (checkpoints, history.csv, predictions.csv, metrics.csv, report.csv) and prints the report.
    """
    from agecli.config import OPTIONS

    chosen = {name: value for name, value in locals().items() if name in OPTIONS}
    settings = dict(_assignment(text) for text in set_ or [])
    first = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun started, one talks
    quiet = quiet or not first
    screen = _listen(quiet, verbose)
    from agecli.monitor import TrainingBars
    from agecli.report import destination, write_rows
    from agecli.runs import REPORT_COLUMNS
    from agecli.training import train as run

    with TrainingBars(screen, quiet) as bars:
        report = run(
            data,
            out=out,
            preset=preset,
            config=config,
            settings=settings,
            folds=folds,
            list=list_,
            exclude=exclude,
            device=device,
            workers=workers,
            resume=resume,
            listener=bars,
            **chosen,
        )
    if not quiet:
        screen.print(f"wrote {report.run}", markup=False)
    if first:
        with destination(output, sys.stdout) as stream:
            shape = _form(form, output)
            single = shape == "table" and sum(isinstance(row["fold"], int) for row in report.rows) == 1
            write_rows(report.rows[:1] if single else report.rows, REPORT_COLUMNS, shape, stream)
    if report.broken:
        typer.echo(f"{len(report.broken)} picture(s) could not be read and were left out", err=True)
        raise typer.Exit(1)


def _assignment(text: str) -> tuple[str, str]:
    from agecli.errors import InputError

    name, sign, value = text.partition("=")
    if not sign:
        raise InputError(f"--set {text} says no value", hint="write --set section.key=value")
    return name.strip(), value.strip()


@app.command()
def evaluate(
    models: Annotated[
        list[Path] | None,
        typer.Argument(help="Run folders or checkpoints; several are compared.", metavar="[RUN|CHECKPOINT]..."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Faces to measure on.", show_default="the run's own")] = None,
    setup: Annotated[
        str | None, typer.Option(help="Measure on the test part of a setup.", show_default="all faces")
    ] = None,
    readout: Annotated[
        str | None, typer.Option(help="mean, median or mode.", show_default="the paper's for the model")
    ] = None,
    challenge: Annotated[
        str | None,
        typer.Option(help="Age checks: a legal age, or a legal and a challenge age, as in 18,25.", metavar="AGE[,AGE]"),
    ] = None,
    exclude: Exclude = None,
    report: Annotated[Path | None, typer.Option(help="Write one HTML page with pictures of it all.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for predictions.csv and metrics.csv.", show_default="the run, or beside the checkpoint"
        ),
    ] = None,
    device: Device = "auto",
    workers: Workers = None,
    form: Form = None,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Measure runs on their test parts, or checkpoints on faces with ages: MAE, CS@5 and more, with confidence."""
    screen = _listen(quiet, verbose)
    from agecli.console import Bars
    from agecli.evaluation import compare, pooled
    from agecli.evaluation import evaluate as run
    from agecli.groups import parse_challenge
    from agecli.report import destination, write_evaluation

    ages = parse_challenge(challenge)
    with Bars(screen, quiet) as bars:
        results = run(
            *(models or ()),
            data=data,
            setup=setup,
            readout=readout,
            challenge=ages,
            exclude=exclude,
            out=out,
            device=device,
            workers=workers,
            progress=bars.features,
        )
    for result in results:
        logging.getLogger("agecli").info("wrote %s", result.folder / "predictions.csv")
    wholes = pooled(results, ages)
    comparison = compare({name: whole.predictions for name, whole in wholes.items()}) if len(wholes) > 1 else []
    if report:
        from agecli.page import describe, write_page

        write_page(report, [describe(name, whole) for name, whole in wholes.items()], comparison)
        logging.getLogger("agecli").info("wrote %s", report)
    with destination(output, sys.stdout) as stream:
        write_evaluation(results, wholes, comparison, ages, _form(form, output), stream)
    if broken := {path for result in results for path in result.broken}:
        typer.echo(f"{len(broken)} picture(s) could not be read and were left out", err=True)
        raise typer.Exit(1)


@app.command()
def split(
    data: Annotated[Path, typer.Argument(help="A data set, or a folder with a manifest.csv or a labels.csv.")],
    setup: Annotated[str, typer.Option(help=SETUPS)] = "random",
    out: Annotated[Path, typer.Option(help="The file to write: fold, part and path of every face.")] = Path(
        "splits.csv"
    ),
    seed: Annotated[int, typer.Option(help="Of the random draw.")] = 0,
    preset: Annotated[str, typer.Option(help="modern, or paper, which holds nothing out for validation.")] = "modern",
    list_: List = None,
    exclude: Exclude = None,
    set_: Settings = None,
    form: Form = None,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write and describe the folds of a protocol, without training: sizes, ages, groups, and what leaks."""
    _listen(quiet, verbose)
    from agecli.report import destination, write_rows
    from agecli.splitting import columns, for_people
    from agecli.splitting import split as run

    settings = dict(_assignment(text) for text in set_ or [])
    rows = run(data, setup=setup, out=out, seed=seed, preset=preset, list=list_, exclude=exclude, settings=settings)
    shape = _form(form, output)
    log = logging.getLogger("agecli")
    folds = max(row["fold"] for row in rows)
    names = columns(rows)
    if shape == "table":
        if folds > SHOWN_FOLDS:
            log.info("%d folds; the first %d:", folds, SHOWN_FOLDS)
        rows, names = for_people([row for row in rows if row["fold"] <= SHOWN_FOLDS])
    with destination(output, sys.stdout) as stream:
        write_rows(rows, names, shape, stream)
    log.info("wrote %s", out)


@app.command()
def audit(
    data: Annotated[Path, typer.Argument(help="A data set, or a folder with a manifest.csv or a labels.csv.")],
    dataset: Annotated[str, typer.Option(help=DATASETS)] = "auto",
    out: Annotated[Path, typer.Option(help="The file for suspicious rows; `train --exclude` takes it.")] = Path(
        "suspicious.csv"
    ),
    workers: Annotated[int, typer.Option(min=1, help="Processes that look at photos.")] = 1,
    form: Form = None,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Look for labels that can't be true: odd ages, subjects at odds with themselves, one photo with two ages.

    Exits with 1 if there are any.
    """
    screen = _listen(quiet, verbose)
    from agecli.auditing import COLUMNS
    from agecli.auditing import audit as run
    from agecli.console import Bars
    from agecli.report import destination, write_rows

    with Bars(screen, quiet) as bars:
        found = run(
            data,
            dataset=dataset,
            out=out,
            workers=workers,
            progress=bars.show,
        )
    shape = _form(form, output)
    with destination(output, sys.stdout) as stream:
        write_rows(found.rows(), COLUMNS if shape == "table" else COLUMNS[:-1], shape, stream)  # bars are for people
    logging.getLogger("agecli").info("wrote %s", out)
    if found.findings:
        raise typer.Exit(1)


@app.command()
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
    _listen(quiet, verbose)
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
        write_ages(rows(), _form(form, output), names, stream)
    if failed:
        typer.echo(f"{failed} photo(s) gave no age", err=True)
        raise typer.Exit(1)


@app.command()
def export(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint made by `agecli train`.")],
    out: Annotated[Path, typer.Option(help="The ONNX file to write.")] = Path("model.onnx"),
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write a model as one ONNX file, forest included, which `predict` runs without torch.

    Its age grid, crop and calibration travel in it. It is compared with torch before it is written.
    """
    _listen(quiet, verbose)
    from agecli.exporting import export as run

    apart = run(checkpoint, out=out)
    logging.getLogger("agecli").info("wrote %s; its probabilities differ from torch's by %.1g at most", out, apart)


@app.command()
def info(
    settings: Annotated[
        bool, typer.Option("--settings", help="Print every setting with its default, as TOML.")
    ] = False,
    preset: Annotated[str, typer.Option(help="Whose defaults: modern or paper.")] = "modern",
) -> None:
    """Versions, devices and where weights are looked for: what to paste into a bug report."""
    if settings:
        from agecli import config

        typer.echo(config.to_toml(config.preset(preset)).strip())
        return
    from agecli.information import lines

    for name, value in lines():
        typer.echo(f"{name:<24} {value}")


@app.command()
def toy(
    folder: Annotated[Path, typer.Argument(help="The data folder to make.")],
    count: Annotated[int, typer.Option(min=10, help="How many faces.")] = 600,
    seed: Annotated[int, typer.Option(help="Of the random faces.")] = 0,
) -> None:
    """Draw a small data set of cartoon faces with ages, to try the other commands on."""
    from agecli.data.toy import draw_faces

    draw_faces(folder, count, seed)
    typer.echo(f"drew {count} faces in {folder}; next: agecli train --data {folder} --freeze --out runs/toy", err=True)


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite stop: what is half written is cleared away
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # file names need not be UTF-8
    app()
