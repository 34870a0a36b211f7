"""`agecli study`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agecli.cli.options import form_of, listen
from agecli.cli.run_options import RunOptions, with_run_options
from agecli.cli.train import Seed
from agecli.core.errors import InputError

if TYPE_CHECKING:
    from agecli.studies.study import Outcome

SETTINGS = ("setup", "backbone", "weights", "freeze", "iterations", "batch_size", "lr", "select")


@with_run_options(*SETTINGS)
def study(
    name: Annotated[
        str,
        typer.Argument(
            help="ablation: what each part of the method gives; initialisation: starts of the leaves; trees, depth, alpha: their number, depth and label spread; "
            "phi: the random assignment of units; entropy: of the routing while it is learned; "
            "benchmark: DRF and DLDLF beside the paper's table of the setup; cacd: its table of CACD."
        ),
    ],
    run: RunOptions,
    options: dict[str, Any],
    seed: Seed = None,
    forests: Annotated[
        int | None, typer.Option(help="Random assignments of the study phi; the paper has 50.", show_default="20")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Cells that are trained in parallel.")] = 1,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the checkpoints of all folds, not only of the first.")
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N|env", help="Train every N-th cell from cell I on; env: as the job array says."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS|FILE|local:N", help="Train the cells on a Dask cluster: tcp://host:8786, scheduler.json, …"
        ),
    ] = None,
) -> None:
    """Run one of the paper's experiments: its runs, its table beside the paper's numbers, its figure.

    Writes the study's folder, studies/<name> unless --out is given (study.csv, the figure as PNG and SVG, a run folder
    for each cell), and prints the table. With --resume, finished cells are not repeated. Processes with --shard share
    one folder, and continue by themselves.

    Example: agecli study ablation --data aligned --setup subject --freeze
    """
    listen(run.quiet, run.verbose)
    keywords = run.keywords()
    from agecli.cli.monitor import StudyBars
    from agecli.cli.training_cluster import study_on_cluster
    from agecli.core.seeds import parse_seeds
    from agecli.reports.latex import study_table
    from agecli.reports.tables import destination, write_rows
    from agecli.studies.seeds import is_complete, study_seeds
    from agecli.studies.study import study as run_study
    from agecli.training.train import PREPARE

    seeds = parse_seeds(seed)
    if shard and cluster:
        raise InputError("--shard and --cluster exclude each other", hint="choose one of them")
    with StudyBars(run.quiet) as bars:
        shared = {**keywords, **options, "jobs": jobs, "keep": keep, "forests": forests, "listener": bars}

        def run_cells(shard: str | None) -> tuple[Outcome, list[Outcome]]:
            if len(seeds) > 1:
                return study_seeds(seeds, name, run.data, **shared, shard=shard)
            outcome = run_study(name, run.data, **shared, shard=shard, seed=(*seeds, None)[0])
            return outcome, [outcome]

        if cluster:
            study_on_cluster(cluster, lambda: len(run_cells(PREPARE)[0].study.cells), bars)
        outcome, parts = run_cells(PREPARE if cluster else shard)
    for part in [*parts, outcome] if len(parts) > 1 else parts:
        if not (shard or cluster) or is_complete(part):  # the last process of an array draws
            _write_figures(name, part)
    form = form_of(run.form, run.output)
    rows, columns = _table(name, outcome, form)
    with destination(run.output, sys.stdout) as stream:
        if form == "latex":
            stream.write(study_table(rows))
        else:
            write_rows(rows, columns, form, stream)
    if outcome.failed:
        typer.echo(f"{len(outcome.failed)} cell(s) failed: {', '.join(outcome.failed)}", err=True)
        raise typer.Exit(1)


def _write_figures(name: str, outcome: Outcome) -> None:
    """The study's figure as PNG and SVG, in its folder."""
    from agecli.reports.figures.style import write_figure
    from agecli.studies.figures import draw

    for kind in ("png", "svg"):
        write_figure(outcome.folder / f"{name}.{kind}", draw(outcome.study, outcome.rows, outcome.setup, kind))
    several = any("seeds" in row for row in outcome.rows)
    logging.getLogger("agecli").info("wrote %s", outcome.folder / ("seeds.csv" if several else "study.csv"))


def _table(name: str, outcome: Outcome, form: str) -> tuple[Sequence[Mapping[str, Any]], Sequence[str]]:
    """The rows and columns to print: all numbers for programs, the important ones with their ranges for people."""
    from agecli.reports.tables import with_ranges
    from agecli.studies.tables import SEED_COLUMNS, SHOWN, cacd_table, columns_of

    every = SEED_COLUMNS if any("seeds" in row for row in outcome.rows) else columns_of(outcome.study)
    columns = SHOWN if form == "table" and name != "entropy" else every
    if name == "cacd" and form == "table" and not any("seeds" in row for row in outcome.rows):
        table = [with_ranges(row) for row in cacd_table(outcome.rows)]
        methods = (f"{method}{end}" for method in ("DLDLF", "DRF") for end in ("", "_range", " (paper)"))
        return table, ("trained", "DEX (paper)", *methods)
    if form not in ("table", "latex"):
        return outcome.rows, columns
    starred = [
        {**row, "paper_cs5": f"{row['paper_cs5']:.1%}*"} if row.get("paper_read") else row for row in outcome.rows
    ]
    if form == "latex":
        return starred, columns
    reference = {outcome.study.reference: " (reference)"}
    rows = [
        {**with_ranges(row), "label": row["label"] + reference.get(row["cell"], ""), "against": row.get("difference")}
        for row in starred
    ]
    return rows, columns
