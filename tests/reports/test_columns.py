"""Every column that people see is described once, with heading, format and unit."""

from __future__ import annotations

import pytest

from agecli.reports import columns
from agecli.reports.columns import COLUMNS, column, format_range, format_value
from agecli.studies import tables as study_tables

SHOWN = {
    *columns.TERMINAL,
    *columns.TERMINAL_AVERAGES,
    *columns.TERMINAL_COMPARISON,
    *columns.PAGE_GAPS,
    *columns.PAGE_RATES,
    *columns.PAGE_GROUPS,
    *columns.PAGE_MODELS,
    *columns.PAGE_COMPARISON,
    *study_tables.SHOWN,
}


@pytest.mark.parametrize("key", sorted(SHOWN))
def test_every_column_of_tables_and_page_is_described(key: str) -> None:
    assert column(key).heading != key or key in COLUMNS


def test_values_and_confidence_intervals_are_formatted_alike() -> None:
    row = {"mae": 2.6157, "mae_low": 2.5, "mae_high": 2.7149, "cs5": 0.8667}
    assert (format_value("mae", row["mae"]), format_range("mae", row)) == ("2.62", "2.50 to 2.71")
    assert (format_value("cs5", row["cs5"]), format_range("cs5", row)) == ("86.7%", None)
    assert (format_value("bias", -0.126), format_value("images", 11000), format_value("p", None)) == (
        "-0.13",
        "11,000",
        "",
    )


def test_labels_have_units_and_error_rates_have_words() -> None:
    assert column("mae").label == "MAE, years"
    assert column("fpr_18_25").label == "younger than 18, predicted 25 or older"
    assert (column("fpr_18_25").heading, format_value("fpr_18_25", 0.125)) == ("fpr_18_25", "12.5%")
    assert column("detector").label == "detector"  # columns of other commands
