"""`agecli evaluate`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agecli.cli.options import Align, Device, Exclude, Output, PaperForm, Quiet, Verbose, Workers, form_of, listen
from agecli.cli.outputs import Force
from agecli.core.errors import InputError

if TYPE_CHECKING:
    from agecli.evaluation.evaluate import Result

log = logging.getLogger("agecli")


def evaluate(
    models: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Run folders, checkpoints or ONNX files; several are compared.",
            metavar="[RUN|MODEL]...",
            show_default="default",
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Faces to measure on.", show_default="the run's own")] = None,
    setup: Annotated[
        str | None, typer.Option(help="Measure on the test parts of this setup.", show_default="all faces")
    ] = None,
    readout: Annotated[
        str | None,
        typer.Option(help="Age read out from the distribution: mean, median or mode.", show_default="the model's own"),
    ] = None,
    challenge: Annotated[
        str | None,
        typer.Option(help="Age checks: a legal age, or a legal and a challenge age, as in 18,25.", metavar="AGE[,AGE]"),
    ] = None,
    exclude: Exclude = None,
    align: Align = False,
    allow_seen: Annotated[
        bool, typer.Option("--allow-seen", help="Exit with 0 even if the model was trained on some of the photos.")
    ] = False,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report with tables, figures and faces.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for predictions.csv and metrics.csv.", show_default="the run, or beside the checkpoint"
        ),
    ] = None,
    device: Device = "auto",
    workers: Workers = None,
    form: PaperForm = None,
    output: Output = None,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Measure runs on their test parts, or checkpoints on labelled faces: MAE, CS@5 and more, with 95 % CI.

    Example: agecli evaluate runs/drf runs/dldlf --report report.html
    """
    listen(quiet, verbose)
    if not models and data is None:
        raise InputError("there are no faces to measure on", hint="name a folder with --data DIR, or a run folder")
    from agecli.cli.progress import Bars
    from agecli.evaluation.evaluate import evaluate as run
    from agecli.model.bundled import name_of
    from agecli.scoring.age_checks import parse_challenge

    ages = parse_challenge(challenge)
    with Bars(quiet) as bars:
        results = run(
            *(models or ()),
            data=data,
            setup=setup,
            readout=readout,
            challenge=ages,
            exclude=exclude,
            align=align,
            out=out,
            device=device,
            workers=workers,
            progress=bars.features,
        )
    _write(results, ages, report, form_of(form, output), output)
    if broken := {path for result in results for path in result.broken}:
        typer.echo(f"{len(broken)} picture(s) could not be read and were left out", err=True)
    misleading = [] if allow_seen else [result for result in results if result.misleading]
    for result in misleading:
        log.error(
            "%s has seen %.1f %% of these photos in training or selection: this is not its error on new faces."
            " Measure on others, or give --allow-seen",
            name_of(Path(result.model)),
            100 * (result.seen or 0),
        )
    if broken or misleading:
        raise typer.Exit(1)


def _write(
    results: Sequence[Result], ages: Sequence[float], report: Path | None, form: str, output: Path | None
) -> None:
    """Print the tables of all results, or write them to `output`; write the HTML report if one is requested.

    ages: of age checks; form: table, csv, jsonl or latex
    """
    from agecli.evaluation.evaluate import compare_models, pooled
    from agecli.reports.evaluation_tables import write_evaluation
    from agecli.reports.tables import destination

    for result in results:
        log.info("wrote %s", result.folder / "predictions.csv")
    wholes = pooled(results, ages)
    comparison = compare_models({name: whole.predictions for name, whole in wholes.items()}) if len(wholes) > 1 else []
    comparison = [{**row, "seen": wholes[row["model"]].seen} for row in comparison]
    if report:
        from agecli.reports.page import model_report, write_page

        write_page(report, [model_report(name, whole) for name, whole in wholes.items()], comparison)
        log.info("wrote %s", report)
    with destination(output, sys.stdout) as stream:
        write_evaluation(results, wholes, comparison, ages, form, stream)
