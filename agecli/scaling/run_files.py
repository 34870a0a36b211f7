"""The files of a sharded run, by their names: plan, list of inputs, parts, tars. No output of a command replaces them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from agecli.core.errors import InputError
from agecli.scaling.places import Place, place

NAME, INPUTS = "plan.json", "plan.inputs.jsonl"
OURS = rf"(part-\d{{5,}}\.(?:jsonl|parquet|error)|faces-\d{{5,}}\.tar|{re.escape(NAME)}|{re.escape(INPUTS)})"


def check_not_of_run(path: Place) -> None:
    """Raise InputError if a path or an address is that of a plan, its list, a part or a tar, in the folder of a run.

    Links are followed. A file of the same name in a folder without a plan is no file of a run.
    """
    folder, name = os.path.split(os.path.realpath(path) if isinstance(path, Path) else str(path))
    if re.fullmatch(OURS, name) and all((place(folder) / each).exists() for each in (NAME, INPUTS)):
        raise InputError(f"{path} is a file of the run in {folder} and is not replaced", hint="write to another file")
