"""Trees with the names and metadata of real data sets, and empty photos."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

MORPH_HEADER = "id_num,picture_num,dob,doa,race,gender,facial_hair,age,age_diff,glasses,photo"
# Album 2 as it is published: images of men and women by race
MORPH_GROUPS = {
    ("B", "M"): 36_832,
    ("B", "F"): 5_757,
    ("W", "M"): 7_961,
    ("W", "F"): 2_598,
    ("A", "M"): 141,
    ("A", "F"): 13,
    ("H", "M"): 1_667,
    ("H", "F"): 102,
    ("O", "M"): 44,
    ("O", "F"): 19,
}


def touch(folder: Path, names: Iterable[str]) -> list[str]:
    """Empty files under these names."""
    names = list(names)
    for parent in {str(Path(name).parent) for name in names}:
        (folder / parent).mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).open("wb").close()
    return names


def morph_rows(groups: dict[tuple[str, str], int] | None = None) -> list[dict[str, Any]]:
    """Rows of MORPH's CSV: about four photos of each subject, one a year."""
    rows: list[dict[str, Any]] = []
    subject = 0
    for (race, sex), count in (groups or MORPH_GROUPS).items():
        for number in range(count):
            picture = number % 4
            subject += picture == 0
            born, first = 1940 + subject % 45, 2003
            age = first + picture - born
            rows.append(
                {
                    "id_num": f"{subject:06d}",
                    "picture_num": picture,
                    "dob": f"{1 + subject % 12}/15/{born}",
                    "doa": f"12/20/{first + picture}",
                    "race": race,
                    "gender": sex,
                    "age": age,
                    "photo": f"Album2/{subject:06d}_{picture}{sex}{age:02d}.JPG",
                }
            )
    return rows


def morph(folder: Path, rows: Sequence[dict[str, Any]], table: bool = True) -> list[str]:
    names = touch(folder, (str(row["photo"]) for row in rows))
    if table:
        header = MORPH_HEADER.split(",")
        lines = [",".join(str(row.get(name, "")) for name in header) for row in rows]
        (folder / "morph_2008.csv").write_text("\n".join([MORPH_HEADER, *lines]) + "\n")
    return names


CACD = [  # name of the photo, age, identity, year, rank, birth
    ("53_Robin_Williams_0001.jpg", 53, 1, 2004, 1, 1951),
    ("62_Robin_Williams_0010.jpg", 62, 1, 2013, 1, 1951),
    ("14_Aaron_Johnson_0001.jpg", 14, 7, 2004, 6, 1990),
]


def _cells(values: Sequence[Any]) -> Any:
    """A column of text as MATLAB's cell arrays are."""
    cells = np.empty((len(values), 1), dtype=object)
    cells[:, 0] = values
    return cells


def cacd(folder: Path, hdf5: bool = False) -> list[str]:
    path = folder / "celebrity2000_meta.mat"
    names = touch(folder, (f"CACD2000/{row[0]}" for row in CACD))
    numbers = {
        name: [row[place] for row in CACD] for place, name in enumerate(("age", "identity", "year", "rank", "birth"), 1)
    }
    if not hdf5:
        from scipy.io import savemat

        columns: dict[str, Any] = {name: np.array(values, dtype=float)[:, None] for name, values in numbers.items()}
        savemat(
            path, {"celebrityImageData": {**columns, "feature": np.zeros((3, 5)), "name": _cells([r[0] for r in CACD])}}
        )
        return names
    import h5py

    with h5py.File(path, "w", userblock_size=512) as file:
        group = file.create_group("celebrityImageData")
        for name, values in numbers.items():
            group[name] = np.array([values], dtype=float)
        texts = [
            file.create_dataset(f"#refs#/{i}", data=np.array([[ord(c)] for c in row[0]], np.uint16))
            for i, row in enumerate(CACD)
        ]
        group.create_dataset(
            "name", data=np.array([[text.ref for text in texts]], dtype=h5py.ref_dtype), dtype=h5py.ref_dtype
        )
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(128))
    return names


def imdb_wiki(folder: Path) -> list[str]:
    """wiki.mat: two good photos, one without a face, one with two, one of an unknown sex."""
    from scipy.io import savemat

    paths = ["17/10000217_1981-05-05_2009.jpg", "48/10000548_1925-12-31_1964.jpg", "12/100012_1948-07-03_2008.jpg"]
    paths += ["65/10001965_1930-05-23_1961.jpg", "16/10002116_1971-05-31_2012.jpg"]
    touch(folder, paths)
    days = [date.fromisoformat(path.split("_")[1]) for path in paths]
    born = [day.toordinal() + 366 for day in days]  # as MATLAB counts them, from the year 0
    columns = {
        "dob": np.array([born]),
        "photo_taken": np.array([[2009, 1964, 2008, 1961, 2012]]),
        "full_path": _cells(paths).T,
        "gender": np.array([[1.0, 1.0, 1.0, 1.0, np.nan]]),
        "name": _cells(["Sami Jauhojärvi", "Dettmar Cramer", "Marc Okrand", "Aleksandar Matanović", "Diana Damrau"]).T,
        "face_location": _cells([np.zeros((1, 4))] * 5).T,
        "face_score": np.array([[4.3, 2.6, -np.inf, 3.5, 1.2]]),
        "second_face_score": np.array([[np.nan, np.nan, np.nan, 1.1, np.nan]]),
    }
    savemat(folder / "wiki.mat", {"wiki": columns})
    return paths


def appa_real(folder: Path) -> list[str]:
    names = touch(
        folder,
        [
            f"{part}/00000{i}.jpg{face}"
            for part in ("train", "valid", "test")
            for i in (0, 1)
            for face in ("", "_face.jpg")
        ],
    )
    for part in ("train", "valid", "test"):
        table = "file_name,num_ratings,apparent_age_avg,apparent_age_std,real_age\n000000.jpg,36,5.05,1.25,4\n000001.jpg,36,22.1,3.1,21\n"
        (folder / f"gt_avg_{part}.csv").write_text(table)
        (folder / f"allcategories_{part}.csv").write_text(
            "file,gender,race,happiness,makeup\n000000.jpg,male,caucasian,happy,nomakeup\n"
        )
    return names
