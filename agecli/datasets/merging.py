"""Merging of `preprocess` in shards: manifest.csv, failures.csv and the index of tars, from the parts, in input order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from agecli.core.errors import InputError
from agecli.core.files import remove_parts, was_edited, write_text, write_whole
from agecli.core.locks import locked
from agecli.core.reading import shown
from agecli.datasets.contact_sheet import draw_contact_sheet
from agecli.datasets.crop_tables import Summary, summarise, write_tables
from agecli.datasets.cropping import CropResult, is_result, is_whole
from agecli.datasets.sharding import COMMAND, crop_options, is_entry, label_of
from agecli.datasets.sources.labels import Label
from agecli.images.pack_writing import write_index
from agecli.images.packs import FOLDERS, INDEX, tar_path
from agecli.scaling.parts import clean, damaged, part_path, read_part
from agecli.scaling.plan import Plan, damaged_list, read_plan
from agecli.scaling.state import check_complete
from agecli.scaling.stored_values import is_count, parse_json

MOST_BYTES = 1 << 32  # of a crop in the index


@dataclass(frozen=True)
class Parts:
    """The labels and results of all photos of a run, in order, read from its files each time."""

    folder: Path
    plan: Plan

    def __iter__(self) -> Iterator[tuple[Label, CropResult]]:
        return ((label, result) for _, label, result in self.with_shards())

    def with_shards(self) -> Iterator[tuple[int, Label, CropResult]]:
        """The same, with the number of the shard. Raises InputError for a damaged part."""
        for number in range(self.plan.shards):
            lines = read_part(self.folder, self.plan, number)
            entries = self.plan.entries(self.folder, number)
            for entry, line in zip_longest(entries, lines):
                if not is_entry(entry):
                    raise damaged_list(self.folder)
                yield number, label_of(entry), self._result(number, line)

    def _result(self, number: int, line: bytes | None) -> CropResult:
        """The result in a line of a part. Raises InputError if it is none, or there is no line."""
        try:
            result = parse_json((line or b"").decode("ascii"))
        except ValueError as error:
            raise damaged(part_path(self.folder, self.plan, number), shown(error)) from error
        if not isinstance(result, dict) or not is_result(result) or not self._are_faces(result.get("faces", ())):
            raise damaged(part_path(self.folder, self.plan, number), "a line is no result of a photo")
        return result

    def _are_faces(self, faces: Iterable[Mapping[str, Any]]) -> bool:
        """Whether faces have sizes and places that an index can hold, and paths inside of the folder."""
        counts = ("bytes", "offset") if self.plan.options["pack"] else ("bytes",)
        return all(
            all(is_count(face.get(name)) for name in counts)
            and face["bytes"] < MOST_BYTES
            and face["path"].split("/")[0] in FOLDERS
            and ".." not in face["path"].split("/")
            for face in faces
        )

    def crops(self) -> Iterator[Path]:
        """The paths of all crops."""
        return (self.folder / face["path"] for _, result in self for face in result.get("faces", ()))

    def packed(self) -> Iterator[tuple[str, int, int, int]]:
        """Path, tar, offset and size of each crop in a tar."""
        for number, _, result in self.with_shards():
            for face in result.get("faces", ()):
                yield face["path"], number, face["offset"], face["bytes"]


def merge_faces(folder: Path, *, contact_sheet: Path | None = None, force: bool = False) -> Summary:
    """Write the tables of a folder of `preprocess` in shards: the same bytes as a run without shards writes.

    contact_sheet: an image file to draw a sample of the crops into.   force: replace tables that were edited.
    Raises InputError while parts are missing, with the shards to run; if a part or a crop is damaged; or if the tables were
    changed since they were written.
    """
    plan = read_plan(folder)
    parts, options = Parts(folder, plan), crop_options(folder, plan)
    check_complete(folder, plan, COMMAND)
    with locked(folder, folder=True):
        for name in ("manifest.csv", "failures.csv"):
            if (folder / name).exists() and not force and was_edited(folder / name):
                raise InputError(
                    f"{folder / name} was changed since agecli wrote it, or copied",
                    hint="rename it, or replace it with `agecli merge --force`",
                )
        clean(folder)
        remove_parts(folder)
        _check_crops(parts)
        if plan.options["pack"]:
            with write_whole(folder / INDEX) as temporary, temporary.open("wb") as file:
                write_index(file, parts.packed())
        if options.detect:  # faces that came aligned were aligned in another way
            write_text(folder / "alignment.toml", options.alignment.to_toml())
        write_tables(folder, parts)
        summary = summarise(plan.options["dataset"], (result for _, result in parts))
        if contact_sheet:
            draw_contact_sheet(parts.crops(), summary.faces, options.alignment, contact_sheet)
    return summary


def _check_crops(parts: Parts) -> None:
    """Raise InputError, which names the part to remove, if a crop or a tar is no longer whole."""
    if parts.plan.options["pack"]:
        ends = dict.fromkeys(range(parts.plan.shards), 0)
        for _, number, offset, size in parts.packed():
            ends[number] = offset + size
        damaged = (
            (number, tar) for number, end in ends.items() if not _has(tar := tar_path(parts.folder, number), end)
        )
    else:
        damaged = (
            (number, parts.folder / result["faces"][0]["path"])
            for number, _, result in parts.with_shards()
            if not is_whole(parts.folder, result)
        )
    if found := next(damaged, None):
        part = part_path(parts.folder, parts.plan, found[0])
        raise InputError(
            f"{found[1]} is missing or damaged", hint=f"make its shard again: rm {part}, and the same command as before"
        )


def _has(tar: Path, end: int) -> bool:
    """Whether a tar is there, and has so many bytes."""
    return tar.is_file() and tar.stat().st_size >= end
