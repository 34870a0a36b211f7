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
RACES = {
    **dict.fromkeys(("w", "white", "caucasian"), "White"),
    **dict.fromkeys(("b", "black", "afroamerican", "african american", "african-american"), "Black"),
    **dict.fromkeys(("a", "asian"), "Asian"),
    **dict.fromkeys(("h", "hispanic", "latino"), "Hispanic"),
    **dict.fromkeys(("i", "indian"), "Indian"),
    **dict.fromkeys(("o", "other", "others"), "Other"),
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
SEXES = {"m": "M", "male": "M", "man": "M", "f": "F", "female": "F", "woman": "F"}


def sex(text: str) -> str:
    """M or F, however it is written; other words stay what they are."""
    return SEXES.get(text.strip().lower(), text.strip())


def race(text: str) -> str:
    """One word for each of the common ones; other words stay what they are."""
    return RACES.get(text.strip().lower(), text.strip())


@cache
def day(text: str) -> date | None:
    """A date as it stands in tables: 1949-07-01, 7/1/1949 or 07/01/49 (month first), 1-Jul-1949, 19490701, 1949.

    None if it is none of these. Two digits of a year are taken to be of the last century.
    """
    text = re.split("[ T]", text.strip())[0].lower()
    try:
        if found := re.fullmatch(r"(\d{4})[-/.]?(\d{1,2})[-/.]?(\d{1,2})", text):
            return date(int(found[1]), int(found[2]), int(found[3]))
        if found := re.fullmatch(r"(\d{1,2})[-/.](\d{1,2}|[a-z]{3,9})[-/.](\d{2}|\d{4})", text):
            year = int(found[3]) + (1900 if len(found[3]) == 2 else 0)
            if found[2].isalpha():
                return date(year, MONTHS.index(found[2][:3]) + 1, int(found[1]))
            first, second = int(found[1]), int(found[2])
            return date(year, second, first) if first > 12 else date(year, first, second)
        if re.fullmatch(r"\d{4}", text):
            return date(int(text), 7, 1)  # the middle of the year is never more than half a year off
    except ValueError:
        return None
    return None


def born_and_taken(birth: str, taken: str) -> tuple[date | None, date | None]:
    """Both dates of a photo; one that seems taken before the birth, by two digits of a year, is of the next century."""
    one, two = day(birth), day(taken)
    if one and two and two < one and not re.search(r"\d{4}", taken):
        two = two.replace(year=two.year + 100)
    return one, two


def years_between(birth: date, taken: date) -> int:
    """An age as people count it."""
    return taken.year - birth.year - ((taken.month, taken.day) < (birth.month, birth.day))
