"""Predictions in shards: the plan of a prediction, and the work of one process on it.

What a process needs is in the folder of the run and in a `ShardJob`, so that it can be any process on any machine that
sees the folder and the photos.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from agecli.core.errors import InputError
from agecli.core.files import file_hash
from agecli.core.worker_process import Limits
from agecli.core.workers import Workers
from agecli.images.members import Member
from agecli.images.remote import is_url
from agecli.model.bundled import DEFAULT, to_run
from agecli.model.predictors import load_predictor
from agecli.prediction.estimator import Estimator
from agecli.prediction.inputs import Listed, read_inputs, stored_only
from agecli.prediction.journal import Tally as Failures
from agecli.prediction.options import Options, check_batch_size
from agecli.prediction.predictions import Predictions
from agecli.scaling.parts import Footer, Tally, do_shard
from agecli.scaling.places import Place, absolute, place
from agecli.scaling.plan import Plan, Request, damaged_list, damaged_plan, make_plan, read_plan
from agecli.scaling.run_files import NAME
from agecli.scaling.stored_values import is_count, is_number, is_text

COMMAND = "predict"
NUMBERS = ("every", "over_confidence")  # options that may be whole numbers, too


@dataclass(frozen=True)
class ShardJob:
    """How one process does shards of a run. Plain data, so that it can be sent to another machine.

    folder: of the run, absolute.   model: None or "default" for the bundled model of that machine, else an absolute path.
    workers: processes that read photos and find faces, or `sessions.PER_THREAD`;   threads: of the network, 0 for one per core.
    """

    folder: str
    model: str | None
    device: str
    batch_size: int
    workers: int
    limits: Limits
    threads: int = 0
    plan: str = ""  # the key of the plan

    def session(self, tasks: int = 1) -> Session:
        """The model and the worker processes of this job."""
        return Session(self, tasks)


def plan_prediction(
    photos: Sequence[str],
    out: Place,
    options: Options,
    job: ShardJob,
    *,
    videos: bool,
    null: bool,
    shards: int | None,
    size: int | None,
    check_inputs: bool,
    file_format: str | None = None,
    check: Callable[[int], object] = lambda shards: None,
) -> Plan:
    """The plan of a prediction in the folder `out`, new or checked; see `plan.make_plan`.

    file_format: of the parts, jsonl or parquet; None for that of the plan, jsonl if it is new.   check: of the number of shards.

    Raises InputError if a picture on stdin is among the inputs: they must be files.
    """
    check_batch_size(job.batch_size)
    path = to_run(job.model, job.device)
    load_predictor(path, job.device)  # an unusable model is an error here, and not of every shard
    if file_format is None and (out / NAME).exists():
        file_format = read_plan(out).options.get("format")
    parts = {"format": file_format} if file_format not in (None, "jsonl") else {}
    stored = {"model": file_hash(path), **asdict(options), "videos": videos, **parts}
    request = Request(COMMAND, stored, photos, os.getcwd(), shards, size)

    def names() -> Iterator[str | dict[str, Any]]:
        for item in stored_only(read_inputs(photos, null, out if isinstance(out, Path) else None, videos), "--out"):
            yield item if isinstance(item, str) else asdict(item)

    return make_plan(out, request, names, check_inputs, check)


def stored_options(folder: Place, plan: Plan) -> Options:
    """The options of a plan that its records depend on. Raises InputError for names and values that are none."""
    stored = {name: value for name, value in plan.options.items() if name not in ("model", "videos", "format")}
    try:
        options = Options(**stored)
    except (TypeError, ValueError, InputError) as error:
        raise damaged_plan(folder, error) from error
    for field in fields(Options):
        value, default = getattr(options, field.name), field.default
        if (
            default is not None
            and type(value) is not type(default)
            and not (field.name in NUMBERS and is_number(value))
        ):
            raise damaged_plan(folder, f"{field.name} is {value!r}")
        if default is None and value is not None and not (is_text if field.name == "readout" else is_number)(value):
            raise damaged_plan(folder, f"{field.name} is {value!r}")
    return options


def job_for(
    out: Place, model: Path | None, device: str, batch_size: int, workers: int, limits: Limits | None, threads: int = 0
) -> ShardJob:
    """A job with absolute paths."""
    own = None if model is None or str(model) == DEFAULT else os.path.abspath(model)
    return ShardJob(absolute(out), own, device, batch_size, workers, limits or Limits(), threads)


class Session:
    """A model and worker processes that stay open for many shards. Use it as a context manager.

    tasks: shards that are done at a time, in threads.
    Raises InputError if the model of this machine is another than that of the plan.
    """

    def __init__(self, job: ShardJob, tasks: int = 1) -> None:
        self.job, self.folder = job, place(job.folder)
        self.plan = read_plan(self.folder)
        if job.plan and self.plan.key != job.plan:
            raise InputError(
                f"{self.folder / 'plan.json'} is another one here", hint="name a folder that all machines share"
            )
        wanted = self.plan.options.get("model")
        path = to_run(job.model, job.device)
        if file_hash(path) != wanted:
            raise InputError(f"{path} is not the model of {self.folder / 'plan.json'}", hint="install the same model")
        self.options = stored_options(self.folder, self.plan)
        self.estimator = Estimator(load_predictor(path, job.device, job.threads), path)
        self.columns = self.options.columns(shift=self.estimator.card.shift is not None)
        self.stack = ExitStack()
        self.pool = self.stack.enter_context(Workers(job.workers or tasks, job.limits))

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes."""
        self.stack.close()

    def work(self, number: int, entries: Iterator[Any], tally: Tally) -> Iterator[bytes]:
        """The lines of a shard: its records, with the names of the inputs as they were given."""
        began = time.monotonic()
        inside = os.path.join(self.plan.base, ".", "")
        photos = (_located(self._checked(entry), inside) for entry in entries)
        predictions = Predictions(
            *(self.estimator.predictor, self.estimator.model, photos, self.options),
            batch_size=self.job.batch_size,
            videos=True,
            pool=self.pool,
        )
        failures = Failures()
        for row in failures(record.row() for record in predictions):
            named = {**row, "source": row["source"].removeprefix(inside)}
            yield json.dumps({name: named.get(name) for name in self.columns}).encode("ascii") + b"\n"
        tally.failed, tally.seconds = failures.failed, time.monotonic() - began

    def _checked(self, entry: Any) -> str | dict[str, Any]:
        """An entry of the list: a name, or the fields of a Member. Raises InputError for anything else."""
        if isinstance(entry, str):
            return entry
        kinds = {field.name: is_text for field in fields(Member)} | {"place": _is_place, "size": is_count}
        if not isinstance(entry, dict) or set(entry) != set(kinds) or not all(kinds[k](entry[k]) for k in kinds):
            raise damaged_list(self.folder)
        return entry

    def do(self, number: int) -> Footer | None:
        """Make the part of a shard; None if another process is making it."""
        return do_shard(self.folder, self.plan, number, self.work)


def _is_place(value: object) -> bool:
    """Whether a value is an offset or a number of a member, or -1 for a container that can't be read."""
    return value == -1 or is_count(value)


def _located(entry: str | Mapping[str, Any], inside: str) -> Listed | Member:
    """An input as it can be opened from any working directory.   inside: the folder of relative names"""
    name = entry if isinstance(entry, str) else entry["container"]
    path = name if os.path.isabs(name) or is_url(name) else inside + name
    return Listed(path) if isinstance(entry, str) else replace(Member(**entry), container=path)
