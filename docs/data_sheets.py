"""Write the counts in docs/data-sheets.md: photos by decade, sex and race of each data set, from its labels.csv.

python docs/data_sheets.py utkface aaf appa wiki fgnet     (folders, each with a labels.csv)
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pandas as pd

PAGE = Path(__file__).parent / "data-sheets.md"
MOST = 80  # years; older people are one group


def counts(name: str, labels: pd.DataFrame) -> str:
    """A row of the table: photos, ages, share of each decade, of women, and of each race that is known.   labels: (n, …)"""
    decades = (labels["age"].clip(upper=MOST) // 10).value_counts(normalize=True)
    known = labels["gender"].dropna()
    races = labels["race"].dropna().value_counts(normalize=True)
    cells = [
        name,
        f"{len(labels):,}",
        f"{labels['age'].min():.0f} to {labels['age'].max():.0f}",
        *(f"{decades.get(decade, 0.0):.0%}" for decade in range(MOST // 10 + 1)),
        f"{(known == 'F').mean():.0%}" if len(known) else "not known",
        ", ".join(f"{race} {share:.0%}" for race, share in races.items()) or "not known",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Replace the rows between the marks of the page."""
    decades = [f"{start} to {start + 9}" for start in range(0, MOST, 10)]
    head = ["set", "photos", "ages", *decades, f"{MOST} and above", "women", "race"]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    rows += [counts(Path(folder).name, pd.read_csv(Path(folder) / "labels.csv")) for folder in sys.argv[1:]]
    text = re.sub(
        r"<!-- counts -->\n.*?<!-- /counts -->",
        lambda _: "\n".join(["<!-- counts -->", *rows, "<!-- /counts -->"]),
        PAGE.read_text(encoding="utf-8"),
        flags=re.S,
    )
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
