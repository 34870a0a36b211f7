"""The engine: one model, a pool of worker processes and a queue; from the bytes of photos to records."""

from __future__ import annotations

import asyncio
import io
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from agecli.core.errors import AgecliError
from agecli.core.files import file_hash
from agecli.core.records import Record
from agecli.core.worker_process import Limits
from agecli.core.workers import CrashedError, TimedOutError, Workers
from agecli.images.crops import Crop, FaceCropper, PhotoFaces
from agecli.prediction.estimator import Estimator, load
from agecli.prediction.options import Options
from agecli.prediction.predictions import face_cropper
from agecli.prediction.standard_input import NAME
from agecli.serving.batching import Batcher, estimate_photos
from agecli.serving.metrics import Metrics
from agecli.serving.photos import ACCEPTED, Reading, Upload, read_upload
from agecli.serving.queue import Memory, Queue
from agecli.serving.refusals import Refusal
from agecli.serving.settings import Settings

log = logging.getLogger("agecli")
HINTS = {"not_a_picture": ACCEPTED, "too_large": "shrink the photo", "deadline": "send a smaller photo"}


@dataclass(frozen=True)
class PhotoOptions:
    """The options of a request."""

    largest: bool = False
    distribution: bool = False
    min_face: int = 0


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to run."""

    estimator: Estimator
    cropper: FaceCropper
    name: str
    sha256: str


class Engine:
    """What the requests share. Created in the event loop; `load` is for another thread.

    engine = Engine(settings, Metrics())
    await asyncio.to_thread(engine.load)
    records = await engine.records(data, PhotoOptions(largest=True))
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.queue, self.uploads = Queue(settings.queue), Memory(settings.upload_bytes)
        self.reading = 0  # photos in the worker processes, or waiting for one
        self.model_thread = ThreadPoolExecutor(1, "agecli-model")
        self.loop = asyncio.get_running_loop()
        self.loaded: Loaded | None = None
        self.workers: Workers | None = None
        self.batcher: Batcher | None = None

    def load(self) -> None:
        """Load the model and start the workers, which look for faces once to load their detectors. Raises AgecliError."""
        settings = self.settings
        estimator = load(settings.model, settings.device)
        cropper = face_cropper(estimator.card, estimator.model, Options())
        self.workers = self._start_workers()
        size = estimator.card.picture.size
        blank = io.BytesIO()
        Image.new("RGB", (64, 64)).save(blank, "PNG")
        upload = Upload(blank.getvalue(), cropper, 10**6)
        for future in [self.workers.submit(read_upload, upload) for _ in range(2 * settings.workers)]:
            with suppress(
                CrashedError
            ):  # on a busy machine, the first photo of a process can exceed a short time limit
                future.result()
        face = PhotoFaces(NAME, (Crop((0, 0, size, size), None, np.zeros((3, size, size), np.uint8)),))
        self.model_thread.submit(estimate_photos, estimator.predictor, [(face, False)], settings.batch_size).result()
        loaded = Loaded(estimator, cropper, estimator.model.name, file_hash(estimator.model))
        self.loop.call_soon_threadsafe(self._serve, loaded)

    def _serve(self, loaded: Loaded) -> None:
        """Accept photos from now on."""
        self.batcher = Batcher(
            loaded.estimator.predictor,
            self.settings.batch_size,
            self.model_thread,
            more_expected=lambda: self.reading > 0,
            observe=self.metrics.batches.add,
        )
        self.loaded = loaded

    def _start_workers(self) -> Workers:
        """A pool whose processes may use half of the time limit for a photo, which is tried twice."""
        limits = Limits.of(self.settings.max_memory, max(0.1, self.settings.timeout / 2))
        return Workers(self.settings.workers, limits, alone=0)

    def check_ready(self) -> Loaded:
        """The model. Raises Refusal while it is loading."""
        if self.loaded is None:
            raise Refusal("loading", "the model is loading", hint="try again", headers={"Retry-After": "1"})
        return self.loaded

    async def records(self, data: bytes, options: PhotoOptions) -> list[Record]:
        """The records of one photo, whose source is `-`.

        Raises Refusal if it can't be read, and after the deadline. A photo without a face has one record that says so.
        """
        try:
            reading = await asyncio.wait_for(self._records(data, options), self.settings.timeout)
        except asyncio.TimeoutError:
            reading = self._failed("deadline", f"it took longer than {self.settings.timeout:g} seconds")
        if isinstance(reading, list):
            return reading
        raise Refusal(reading.refusal or "unreadable", reading.faces.error or "", HINTS.get(reading.refusal or "", ""))

    async def _records(self, data: bytes, options: PhotoOptions) -> list[Record] | Reading:
        """The records, or the reading of a photo that is refused."""
        assert self.batcher is not None
        reading = await self._read(data, options)
        self.metrics.photos[reading.faces.status] += 1
        if reading.refusal:
            return reading
        photo = reading.faces
        if photo.status != "ok":
            return [Record(photo.source, status=photo.status, error=photo.error)]
        records = await self.batcher.records(photo, options.distribution)
        self.metrics.faces += len(records)
        return records

    async def _read(self, data: bytes, options: PhotoOptions) -> Reading:
        """Decode a photo and find its faces in a worker process."""
        cropper = replace(self.check_ready().cropper, largest=options.largest, min_face=options.min_face)
        upload = Upload(data, cropper, int(self.settings.max_pixels * 1e6))
        self.reading += 1
        try:
            return await asyncio.wrap_future(self._pool().submit(read_upload, upload))
        except TimedOutError as error:
            return self._failed("deadline", str(error))
        except CrashedError as error:
            return self._failed("crashed", str(error))
        except AgecliError as error:  # processes can't be started
            raise Refusal("loading", error.message, hint="try again", headers={"Retry-After": "1"}) from error
        finally:
            self.reading -= 1

    def _pool(self) -> Workers:
        """The worker processes; new ones if they could not be started before."""
        assert self.workers is not None
        if self.workers.failure is not None:
            log.error("worker processes could not be started: %s; trying again", self.workers.failure)
            self.workers = self._start_workers()
        return self.workers

    @staticmethod
    def _failed(code: str, reason: str) -> Reading:
        return Reading(PhotoFaces(NAME, status="crashed", error=reason), code)

    def close(self) -> None:
        """End the worker processes and the model's thread."""
        if self.workers:
            self.workers.close()
        self.model_thread.shutdown(cancel_futures=True)
