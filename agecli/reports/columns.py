"""Column descriptions: the heading, number format and unit of every result, for tables, the HTML page and figures.

A new column of the report is an entry in `COLUMNS`, and its key in the tuples below that say which columns are shown where.
Programs read the CSV files, which have the keys as headings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agecli.core.ages import COVERAGE
from agecli.scoring.age_checks import describe_rate

NOMINAL = f"{100 * COVERAGE:.0f} %"  # nominal coverage of the interval
LEVEL = "95 % CI"

# The keys that are shown, in order: in the terminal (`evaluate`), and on the HTML page.
TERMINAL = ("images", "mae", "mae_range", "cs5", "bias", "coverage", "width", "nll", "crps", "leakage")
TERMINAL_COMPARISON = ("model", "images", "mae", "mae_range", "cs5", "difference", "difference_range", "p")
PAGE_GROUPS = ("group", "images", "subjects", "mae", "cs5", "bias", "coverage", "width")
PAGE_MODELS = ("model", "images", *PAGE_GROUPS[3:], "nll", "crps", "leakage", "intervals")
PAGE_COMPARISON = ("model", "images", "mae", "cs5", "difference", "p")


@dataclass(frozen=True)
class Column:
    """How one result is shown to people."""

    key: str  # in rows and CSV files
    heading: str
    form: str = "{}"  # for str.format
    unit: str = ""
    long: str = ""  # a heading in words, where there is room for it

    @property
    def label(self) -> str:
        """The long heading, or heading and unit: "MAE, years"."""
        return self.long or (f"{self.heading}, {self.unit}" if self.unit else self.heading)


COLUMNS: dict[str, Column] = {
    column.key: column
    for column in (
        Column("model", "model"),
        Column("group", "group"),
        Column("label", ""),
        Column("images", "faces", "{:,}"),
        Column("subjects", "subjects", "{:,}"),
        Column("mae", "MAE", "{:.2f}", "years"),
        Column("mae_range", LEVEL),
        Column("cs5", "CS@5", "{:.1%}"),
        Column("bias", "bias", "{:+.2f}", "years"),
        Column("coverage", f"{NOMINAL} coverage", "{:.1%}"),
        Column("width", "interval width", "{:.1f}", "years"),
        Column("nll", "NLL", "{:.2f}", "nats"),
        Column("crps", "CRPS", "{:.2f}", "years"),
        Column("leakage", "seen in training", "{:.1%}"),
        Column("intervals", "intervals"),
        Column("difference", "MAE minus that of the first", "{:+.2f}", "years"),
        Column("against", "MAE minus the reference", "{:+.2f}", "years"),
        Column("difference_range", LEVEL),
        Column("p", "p", "{:.3f}"),
        Column("paper_mae", "paper's MAE", "{:.2f}", "years"),
        Column("paper_cs5", "paper's CS@5", "{:.1%}"),
        Column("youngest", "from", "{:.0f}"),
        Column("mean_age", "mean age", "{:.1f}"),
        Column("oldest", "to", "{:.0f}"),
    )
}


def column(key: str) -> Column:
    """The description of the column with this key.

    Error rates of age checks (fpr_18, …) are shares, with a long heading in words. Other unknown keys are their own
    heading, and their values are shown as they are.
    """
    if key in COLUMNS:
        return COLUMNS[key]
    if key.startswith(("fpr_", "fnr_")):
        return Column(key, key, "{:.1%}", long=describe_rate(key))
    return Column(key, key)


def format_value(key: str, value: Any) -> str:
    """A value as people read it: `format_value("cs5", 0.8667)` -> "86.7%". None gives "", text is unchanged."""
    if value is None or isinstance(value, str):
        return value or ""
    return column(key).form.format(value)


def format_range(key: str, row: Mapping[str, Any]) -> str | None:
    """The confidence interval `<key>_low` to `<key>_high` of a row: "2.50 to 2.71". None if the row has none."""
    low, high = row.get(f"{key}_low"), row.get(f"{key}_high")
    if low is None or high is None:
        return None
    return f"{format_value(key, low)} to {format_value(key, high)}"
