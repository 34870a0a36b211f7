"""Age checks by hand."""

from __future__ import annotations

import pytest

from agecli.core.errors import InputError
from agecli.scoring.age_checks import check_names, describe_rate, parse_challenge
from agecli.scoring.groups import breakdown, columns
from tests.scoring.test_groups import FACES


def test_age_checks_by_hand() -> None:
    row = breakdown(FACES, (18.0, 25.0))[0]
    assert (row["fpr_18_count"], row["fpr_18_of"], row["fpr_18_small"]) == (2, 3, 1)
    assert row["fpr_18"] == pytest.approx(2 / 3, abs=1e-4)  # of three under 18, those of 15 and 17 taken for 20 and 26
    assert row["fnr_18"] == pytest.approx(1 / 3, abs=1e-4)  # of three entitled, the one of 18 taken for 17
    assert row["fpr_18_25"] == pytest.approx(1 / 3, abs=1e-4)  # under 18 and taken for at least 25
    assert row["fnr_18_25"] == pytest.approx(2 / 3, abs=1e-4)  # entitled at 18, but asked for a paper
    assert row["fpr_25"] == pytest.approx(1 / 4, abs=1e-4)
    assert row["fnr_25"] == pytest.approx(1 / 2, abs=1e-4)
    by_group = {row["group"]: row for row in breakdown(FACES, (18.0,)) if row["by"] == "decade"}
    assert by_group["30-39"]["fpr_18"] is None  # nobody there is under 18
    assert set(row) <= set(columns((18.0, 25.0)))


@pytest.mark.parametrize("text", ["nan", "-5", "inf", "18;25", "x"])
def test_only_ages_can_be_checked(text: str) -> None:
    with pytest.raises(InputError, match="no list of ages"):
        parse_challenge(text)


def test_text_that_is_no_list_of_ages_is_refused() -> None:
    assert parse_challenge("25, 18") == (18.0, 25.0)
    assert parse_challenge(None) == ()
    with pytest.raises(InputError, match="`18;25` is no list of ages"):
        parse_challenge("18;25")


def test_error_rates_have_names_and_words() -> None:
    assert check_names((18.0, 25.0)) == ("fpr_18", "fnr_18", "fpr_18_25", "fnr_18_25", "fpr_25", "fnr_25")
    assert describe_rate("fpr_18_25") == "younger than 18, predicted 25 or older"
    assert describe_rate("fnr_18") == "18 or older, predicted younger than 18"
