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
TERMINAL = ("images", "subjects", "mae", "seen", "mae_range", "bias", "width", "nll", "crps", "leakage")
TERMINAL_RUN = ("images", "mae", "cs5", "bias", "coverage", "width", "nll", "crps", "leakage")  # of `train`
TERMINAL_RATES = ("cs5", "coverage")  # by group, each with 95 % CI and counts
TERMINAL_AVERAGES = ("balanced_mae", "nist_mae", "nist_cells", "error_std", "rmse", "ccc")
TERMINAL_COMPARISON = ("model", "images", "mae", "seen", "mae_range", "cs5", "difference", "difference_range", "p")
PAGE_GROUPS = ("group", "images", "subjects", "mae", "error_std", "bias", "cs5", "coverage", "width")
PAGE_YEARS = ("group", "images", "subjects", "mae", "error_std", "bias", "cs5", "coverage")
PAGE_SEEN = ("model", "images", "mae", "seen", "bias", "cs5", "coverage", "width")  # seen and unseen photos apart
PAGE_MODELS = (
    "model",
    "images",
    "mae",
    "seen",
    "bias",
    "cs5",
    "coverage",
    "width",
    "nll",
    "crps",
    "leakage",
    "intervals",
)
PAGE_AVERAGES = ("model", *TERMINAL_AVERAGES, "median", "p95")
PAGE_RATES = ("rate", "share", "counts")
PAGE_GAPS = ("by", "metric", "group", "value", "other", "other_value", "difference", "p", "pairs")
PAGE_COMPARISON = ("model", "images", "mae", "seen", "cs5", "difference", "p")


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
        Column("subjects", "people", "{:,}"),
        Column("mae", "MAE", "{:.2f}", "years"),
        Column("seen", "seen", "{:.1%}", long="photos seen in training"),
        Column("cs5", "CS@5", "{:.1%}"),
        Column("bias", "bias", "{:+.2f}", "years"),
        Column("coverage", "coverage", "{:.1%}", long=f"{NOMINAL} coverage"),
        Column("width", "width", "{:.1f}", "years", "interval width, years"),
        Column("nll", "NLL", "{:.2f}", "nats"),
        Column("train_nll", "training NLL", "{:.3f}", "nats"),
        Column("test_nll", "test NLL", "{:.3f}", "nats"),
        Column("crps", "CRPS", "{:.2f}", "years"),
        Column("leakage", "people seen", "{:.1%}", long="people seen in training"),
        Column("intervals", "intervals"),
        Column("difference", "difference", "{:+.2f}", "years"),
        Column("against", "difference", "{:+.2f}", "years", "MAE minus the reference, years"),
        Column("p", "p", "{:.3f}"),
        Column("balanced_mae", "balanced MAE", "{:.2f}", "years"),
        Column("nist_mae", "NIST MAE", "{:.2f}", "years"),
        Column("nist_cells", "cells of 26"),
        Column("error_std", "std of |error|", "{:.2f}", "years"),
        Column("rmse", "RMSE", "{:.2f}", "years"),
        Column("ccc", "CCC", "{:.3f}"),
        Column("median", "median", "{:.2f}", "years", "median |error|, years"),
        Column("p95", "95th pct", "{:.2f}", "years", "95th percentile of |error|, years"),
        Column("rate", "rate"),
        Column("share", "share", "{:.1%}"),
        Column("counts", "faces"),
        Column("by", "by"),
        Column("metric", "of"),
        Column("value", "value", "{:+.2f}", "years"),
        Column("other", "against"),
        Column("other_value", "value", "{:+.2f}", "years"),
        Column("pairs", "pairs"),
        Column("legal", "legal age"),
        Column("rule", "accepted from"),
        Column("who", "true age"),
        Column("year", "true age"),
        Column("accepted", "too young, accepted", "{:.1%}"),
        Column("refused", "old enough, refused", "{:.1%}"),
        Column("years_under", "years under", "{:.1f}", "years", "accepted: mean years too young"),
        Column("years_under_most", "at most", "{:.1f}", "years", "accepted: most years too young"),
        Column("overestimate", "overestimate", "{:.1f}", "years", "accepted: mean overestimate, years"),
        Column("mae_std", "std of MAE", "{:.2f}", "years"),
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
    if key.endswith("_range"):
        return Column(key, LEVEL)
    if key.endswith("_counts"):
        return Column(key, "faces")
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


def format_counts(key: str, row: Mapping[str, Any]) -> str | None:
    """What the rate `key` of a row counts: "3 of 11 (few)". None if the row has no counts."""
    count, of = row.get(f"{key}_count"), row.get(f"{key}_of")
    if count is None or not of:
        return None
    return f"{count:,} of {of:,}{' (few)' if row.get(f'{key}_small') else ''}"
