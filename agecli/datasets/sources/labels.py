"""The label of a photo, and how data sets write sexes, races and dates."""

from __future__ import annotations

import re
from datetime import date
from functools import cache
from typing import NamedTuple


class Label(NamedTuple):
    """What a data set says about a photo, as text; unknown values are empty."""

    age: str = ""  # years
    subject: str = ""  # who it is
    sex: str = ""  # M or F
    race: str = ""
    split: str = ""  # train, val or test, if the data set says so
    rank: str = ""  # of a celebrity (CACD): the protocol splits by it
    birth: str = ""  # date or year of birth: 1949-07-01, 1949
    taken: str = ""  # date or year of the photo


ALIASES = {  # names of columns in other tables, and ours
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
    """M or F for the usual spellings; other text is only stripped: `sex("female") == "F"`."""
    return SEXES.get(text.strip().lower(), text.strip())


def race(text: str) -> str:
    """One name for each of the usual spellings; other text is only stripped: `race("caucasian") == "White"`."""
    return RACES.get(text.strip().lower(), text.strip())


@cache
def parse_date(text: str) -> date | None:
    """A date as tables write it: 1949-07-01, 7/1/1949 or 07/01/49 (month first), 1-Jul-1949, 19490701, 1949.

    A year alone is its middle, 1 July. Two digits of a year are of the 20th century. None for any other text.
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
            return date(int(text), 7, 1)
    except ValueError:
        return None
    return None


def birth_and_photo_dates(birth: str, taken: str) -> tuple[date | None, date | None]:
    """Both dates of a photo. A photo with a two-digit year that would precede the birth is moved a century later."""
    born, photographed = parse_date(birth), parse_date(taken)
    if born and photographed and photographed < born and not re.search(r"\d{4}", taken):
        photographed = photographed.replace(year=photographed.year + 100)
    return born, photographed


def years_between(birth: date, taken: date) -> int:
    """Completed years of age on the day of the photo; negative before the birth."""
    return taken.year - birth.year - ((taken.month, taken.day) < (birth.month, birth.day))
