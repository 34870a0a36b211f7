"""What is known of a photo, and how other people write it."""

from __future__ import annotations

import re
from datetime import date
from functools import cache
from typing import NamedTuple


class Label(NamedTuple):
    """What is known of a face; unknown values are empty."""

    age: str = ""
    subject: str = ""
    sex: str = ""  # M or F
    race: str = ""
    split: str = ""
    rank: str = ""  # of a celebrity (CACD): the protocol splits by it
    birth: str = ""  # a date or a year: 1949-07-01, 1949
    taken: str = ""  # the same of the photo


ALIASES = {  # what other tables call our columns
    "identity": "subject",
    "subject_id": "subject",
    "gender": "sex",
    "ethnicity": "race",
    "dob": "birth",
    "birth_date": "birth",
    "birth_year": "birth",
    "photo_taken": "taken",
    "year": "taken",
}
SEXES = {"m": "M", "male": "M", "man": "M", "f": "F", "female": "F", "woman": "F"}


def sex(text: str) -> str:
    """M or F, however it is written; other words stay what they are."""
    return SEXES.get(text.strip().lower(), text.strip())


@cache
def day(text: str) -> date | None:
    """A date as it stands in tables: 1949-07-01, 7/1/1949 or 07/01/49 (month first), 1949. None if it is none."""
    text = text.strip().partition(" ")[0]
    try:
        if found := re.fullmatch(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})", text):
            return date(int(found[1]), int(found[2]), int(found[3]))
        if found := re.fullmatch(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{2}|\d{4})", text):
            year = int(found[3]) + (
                1900 if len(found[3]) == 2 else 0
            )  # MORPH's photos end in 2007, its people are older
            month, number = int(found[1]), int(found[2])
            return date(year, number, month) if month > 12 else date(year, month, number)
        if re.fullmatch(r"\d{4}", text):
            return date(int(text), 7, 1)  # the middle of the year is never more than half a year off
    except ValueError:
        return None
    return None


def years_between(birth: date, taken: date) -> int:
    """An age as people count it."""
    return taken.year - birth.year - ((taken.month, taken.day) < (birth.month, birth.day))
