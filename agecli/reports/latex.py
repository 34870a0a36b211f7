r"""LaTeX tables for papers: booktabs rules, the best value of a column in bold, and ± for the spread over folds or seeds.

The document needs `\usepackage{booktabs}`.
"""

from __future__ import annotations

import re
import statistics
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agecli.reports.columns import format_value

if TYPE_CHECKING:
    from agecli.evaluation.evaluate import Result

SPECIAL = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "×": r"$\times$",
    "−": r"$-$",
    "→": r"$\rightarrow$",
}
GREEK = re.compile("GREEK (SMALL|CAPITAL) LETTER ([A-Z]+)")  # Unicode names of letters, which LaTeX has in math mode
NO_COMMAND = [
    "Α",
    "Β",
    "Ε",
    "Ζ",
    "Η",
    "Ι",
    "Κ",
    "Μ",
    "Ν",
    "Ο",
    "Ρ",
    "Τ",
    "Χ",
    "ο",
]  # those that look like Latin ones have none


@dataclass(frozen=True)
class LatexColumn:
    """A column of a LaTeX table."""

    key: str  # of the rows; the spread is under `<key>_std`
    heading: str
    best: Callable[[Sequence[float]], float] | None = None  # min or max: that value is bold


MEASURES = (
    LatexColumn("images", "Faces"),
    LatexColumn("mae", "MAE (years)", min),
    LatexColumn("cs5", "CS@5", max),
    LatexColumn("bias", "Bias"),
    LatexColumn("coverage", "Coverage"),
)
STUDY = (
    LatexColumn("train_nll", "Training NLL", min),
    LatexColumn("test_nll", "Test NLL", min),
    LatexColumn("mae", "MAE (years)", min),
    LatexColumn("cs5", "CS@5", max),
    LatexColumn("difference", "Difference"),
    LatexColumn("paper_mae", "MAE in the paper"),
    LatexColumn("paper_cs5", "CS@5 in the paper"),
)


def latex_table(rows: Sequence[Mapping[str, Any]], first: str, columns: Sequence[LatexColumn], note: str) -> str:
    """A tabular environment, with a comment that says what ± means.

    rows: numbers by column, None where one is not known; columns without any number are left out
    first: the key of the first column, whose text is the name of the row
    Example: `latex_table([{"model": "drf", "mae": 2.1, "mae_std": 0.1}], "model", MEASURES, "std over folds")`
    """
    shown = [column for column in columns if any(row.get(column.key) is not None for row in rows)]
    best = {column.key: _best(rows, column) for column in shown}
    lines = [
        f"% \\usepackage{{booktabs}}; {note}",
        f"\\begin{{tabular}}{{l{'r' * len(shown)}}}",
        "\\toprule",
        " & ".join([first.capitalize(), *(escape(column.heading) for column in shown)]) + r" \\",
        "\\midrule",
    ]
    for row in rows:
        cells = [_cell(row, column.key, best[column.key]) for column in shown]
        lines.append(" & ".join([escape(str(row[first])), *cells]) + r" \\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def evaluation_table(
    results: Sequence[Result], wholes: Mapping[str, Result], comparison: Sequence[Mapping[str, Any]]
) -> str:
    """One row for each model: all folds pooled, ± the std over the folds; several models on their common faces.

    Of a model that was tested on more faces than all models share, only the numbers of the shared ones are shown.
    """
    compared = {row["model"]: row for row in comparison}
    rows = []
    for name, whole in wholes.items():
        folds = [result.rows[0] for result in results if result.model == name]
        row = {"model": name, **{column.key: whole.rows[0][column.key] for column in MEASURES}}
        for key in ("mae", "cs5", "bias", "coverage") if len(folds) > 1 else ():
            row[f"{key}_std"] = statistics.stdev(fold[key] for fold in folds)
        own = compared.get(name, {})
        if own and own["images"] < row["images"]:
            row = {"model": name}
        row |= {key: own[key] for key in ("images", "mae", "cs5", "difference", "p") if own.get(key) is not None}
        rows.append(row)
    columns = (*MEASURES, LatexColumn("difference", "Difference"), LatexColumn("p", "$p$"))
    return latex_table(rows, "model", columns, "all folds pooled; $\\pm$: std over folds")


def run_table(rows: Sequence[Mapping[str, Any]], first: str) -> str:
    """The report of a run in one row for each fold or seed, and their mean ± std.

    first: fold or seed; rows named mean and std become one
    """
    single = [row for row in rows if row[first] not in ("mean", "std")]
    spread = next((row for row in rows if row[first] == "std"), {})
    means = [
        {**row, **{f"{column.key}_std": spread.get(column.key) for column in MEASURES[1:]}, "images": None}
        for row in rows
        if row[first] == "mean"
    ]
    plain = [LatexColumn(column.key, column.heading) for column in MEASURES]
    return latex_table([*single, *means], first, plain, f"$\\pm$: std over {first}s")


def study_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table of a study: a row for each cell, ± the std over seeds if there are several."""
    return latex_table(rows, "label", STUDY, "$\\pm$: std over seeds")


def escape(text: str) -> str:
    """Text with the special characters of LaTeX escaped; a heading in $…$ is kept."""
    if text.startswith("$") and text.endswith("$"):
        return text
    return "".join(SPECIAL.get(letter) or _greek(letter) or letter for letter in text)


def _greek(letter: str) -> str:
    """A Greek letter as a LaTeX command: "α" -> "$\\alpha$"; "" for other characters."""
    found = GREEK.fullmatch(unicodedata.name(letter, ""))
    if not found or letter in NO_COMMAND:
        return ""
    name = found[2].replace("LAMDA", "LAMBDA")
    return f"$\\{name.lower() if found[1] == 'SMALL' else name.capitalize()}$"


def _best(rows: Sequence[Mapping[str, Any]], column: LatexColumn) -> str | None:
    """The best value of a column as it is printed; None if there are fewer than two to choose from."""
    values = [row[column.key] for row in rows if row.get(column.key) is not None]
    return format_value(column.key, column.best(values)) if column.best and len(values) > 1 else None


def _cell(row: Mapping[str, Any], key: str, best: str | None) -> str:
    """A number with its spread; bold if it is the best as printed."""
    value = row.get(key)
    if value is None:
        return "--"
    text = format_value(key, value)
    number = escape(text).replace("-", "$-$")
    bold = f"\\textbf{{{number}}}" if text == best else number
    spread = row.get(f"{key}_std")
    return bold if spread is None else f"{bold} $\\pm$ {escape(format_value(key, spread).lstrip('+'))}"
