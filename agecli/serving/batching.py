"""Batching: faces of requests that arrive at about the same time are one run of the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import islice

from agecli.core.records import Record
from agecli.images.crops import PhotoFaces
from agecli.model.predictors import Predictor
from agecli.prediction.estimation import face_records
from agecli.prediction.options import Options

WAIT = 0.005  # seconds for more faces, while other photos are being read


@dataclass
class _Waiting:
    """A photo with faces, and the future of its records."""

    photo: PhotoFaces
    distribution: bool
    future: asyncio.Future[list[Record]]


class Batcher:
    """Collects faces and runs the model in a thread, one batch at a time. All methods are for the event loop's thread.

    more_expected: whether other photos are being read, whose faces are worth waiting for: a request that is alone is not
        delayed.
    observe: called with the number of faces of each run.

        records = await batcher.records(photo, distribution=True)
    """

    def __init__(
        self,
        predictor: Predictor,
        batch_size: int,
        executor: Executor,
        more_expected: Callable[[], bool],
        observe: Callable[[int], None] = lambda faces: None,
    ) -> None:
        self.predictor, self.batch_size, self.executor = predictor, batch_size, executor
        self.more_expected, self.observe = more_expected, observe
        self.waiting: list[_Waiting] = []
        self.timer: asyncio.TimerHandle | None = None
        self.running: asyncio.Future[list[list[Record]]] | None = None
        self.loop = asyncio.get_running_loop()

    async def records(self, photo: PhotoFaces, distribution: bool) -> list[Record]:
        """A record for each face of a photo, in order. Raises InputError if the model can't be run."""
        if not photo.crops:
            return []
        item = _Waiting(photo, distribution, self.loop.create_future())
        self.waiting.append(item)
        self._consider()
        return await item.future

    def _consider(self) -> None:
        """Run the model now, or in a moment, or after the present run."""
        if self.running or not self.waiting:
            return
        faces = sum(len(item.photo.crops) for item in self.waiting)
        if faces >= self.batch_size or not self.more_expected():
            self._run()
        elif self.timer is None:
            self.timer = self.loop.call_later(WAIT, self._run)

    def _run(self) -> None:
        """Start a run with as many photos as fill a batch; at least one, whose faces may exceed it."""
        if self.timer:
            self.timer.cancel()
            self.timer = None
        if self.running:
            return
        self.waiting = [item for item in self.waiting if not item.future.done()]  # without those of cancelled requests
        batch, faces = list[_Waiting](), 0
        while self.waiting and (not batch or faces + len(self.waiting[0].photo.crops) <= self.batch_size):
            batch.append(self.waiting.pop(0))
            faces += len(batch[-1].photo.crops)
        if not batch:
            return
        self.observe(faces)
        photos = [(item.photo, item.distribution) for item in batch]
        self.running = self.loop.run_in_executor(
            self.executor, estimate_photos, self.predictor, photos, self.batch_size
        )
        self.running.add_done_callback(lambda run: self._finish(batch, run))

    def _finish(self, batch: list[_Waiting], run: asyncio.Future[list[list[Record]]]) -> None:
        """Give the photos of a run their records, or its error."""
        self.running = None
        error = None if run.cancelled() else run.exception()
        for number, item in enumerate(batch):
            if item.future.done():
                continue
            if run.cancelled():
                item.future.cancel()
            elif error:
                item.future.set_exception(error)
            else:
                item.future.set_result(run.result()[number])
        self._consider()


def estimate_photos(
    predictor: Predictor, photos: Sequence[tuple[PhotoFaces, bool]], batch_size: int
) -> list[list[Record]]:
    """The records of each photo, which has faces and is wanted with its distribution or without."""
    options = Options(distribution=any(distribution for _, distribution in photos))
    faces = [(photo, number) for photo, _ in photos for number in range(len(photo.crops))]
    batches = (faces[start : start + batch_size] for start in range(0, len(faces), batch_size))
    records = (record for batch in batches for record in face_records(predictor, batch, options))
    return [
        [record if distribution else replace(record, distribution=None) for record in islice(records, len(photo.crops))]
        for photo, distribution in photos
    ]
