"""Selection: which checkpoints are measured on which faces, and where the results are written.

There are two cases. A run on its own data: each fold on its own test part, whose results the run has already. Anything
else (other data, a setup, a checkpoint): each checkpoint on all faces or on the test parts of the setup, with results in
a folder evaluation-<data>. In both, `--exclude` leaves faces out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agecli.core import config as configs
from agecli.core.ages import AgeGrid, Readout
from agecli.core.config import Config
from agecli.core.errors import InputError, MissingError
from agecli.datasets.manifest import Manifest, read_manifest, read_names
from agecli.datasets.protocols import Fold, make_folds
from agecli.evaluation.files import load_file
from agecli.model.bundled import FOLDERS
from agecli.training.run_folder import Run, finished_folds, open_run, owner_of, read_faces


@dataclass(frozen=True)
class EvaluationRequest:
    """One run or checkpoint to evaluate, and the options of `evaluate` for it."""

    model: Path
    data: str | Path | None = None
    setup: str | None = None
    readout: Readout | None = None
    challenge: tuple[float, ...] = ()  # ages of age checks, in years
    exclude: str | Path | None = None  # a file of photos to leave out
    out: Path | None = None


@dataclass(frozen=True)
class Measurement:
    """One checkpoint and the faces to measure it on."""

    name: str  # of the folder for its results, below that of the evaluation; "" for that folder itself
    checkpoint: Path
    manifest: Manifest
    fold: Fold  # its test part is measured; its training part is what the checkpoint was trained on, if known
    stored: Path | None = None  # where the run keeps the predictions of this checkpoint for its test part


@dataclass(frozen=True)
class Selection:
    """What one request measures."""

    request: EvaluationRequest
    run: Run | None  # that was named; None for a checkpoint
    data: Path
    own_test_parts: bool  # whether each fold of the run is measured on its own test part
    measurements: tuple[Measurement, ...]

    @property
    def repeats_run(self) -> bool:
        """Whether the results are those that the run itself has: same faces, same readout."""
        return self.own_test_parts and self.request.readout is None and self.request.exclude is None

    def folder(self, complete: bool = True) -> Path:
        """The folder for all results of this evaluation.

        complete: whether every picture could be read. If not, the results that a run has of all its faces are kept.
        """
        request = self.request
        if request.out:
            return request.out
        if self.repeats_run:
            return request.model if complete else request.model / "evaluation"
        bundled = request.model.parent in FOLDERS
        base = request.model if self.run else Path("runs") if bundled else request.model.parent
        base /= "-".join(
            (
                "evaluation",
                *([] if self.own_test_parts else [self.data.resolve().name]),
                *([f"without-{Path(request.exclude).stem}"] if request.exclude else []),
                *([request.readout] if request.readout else []),
            )
        )
        return base if self.run else base / request.model.stem


def select(request: EvaluationRequest) -> Selection:
    """Find the checkpoints and faces that a request is about.

    Raises MissingError if there is no such run or checkpoint, or if no fold of the run is finished; InputError if a
    checkpoint is named without data, if the faces of a run have changed, or if no face is left to measure on.
    """
    path = request.model
    if not path.exists():
        raise MissingError(
            f"there is no run or checkpoint {path}", hint="`agecli train` makes one: runs/NAME/fold-1/best.safetensors"
        )
    run = open_run(path) if path.is_dir() else None
    if request.data is not None:
        data = Path(request.data)
    elif run is not None:
        data = run.data
    else:
        if path.suffix not in (".safetensors", ".onnx"):
            raise InputError(
                f"{path} is neither a run folder nor a model",
                hint="models end in .safetensors or .onnx; labelled faces are named with --data",
            )
        raise InputError(
            f"{path} is a model file, which has no faces of its own",
            hint="name a data folder with --data, or a run folder",
        )
    if run is not None and request.setup is None and data.resolve() == run.data.resolve():
        own = tuple(part for part in _own_test_parts(request, run, data) if part.fold.test)
        if not own:
            raise InputError(f"{request.exclude} excludes every test face of {path}", hint="name fewer of them")
        return Selection(request, run, data, True, own)
    return Selection(request, run, data, False, tuple(_other_faces(request, run, data)))


def _own_test_parts(request: EvaluationRequest, run: Run, data: Path) -> Iterator[Measurement]:
    """Each finished fold of a run on its own test part."""
    manifest, folds = read_faces(run, data)
    kept = {sample.path for sample in _leave_out(request, manifest, run.config).samples}
    by_number = {fold.number: fold for fold in folds}
    for number in finished_folds(run):
        fold = by_number[number]
        test = tuple(index for index in fold.test if manifest.samples[index].path in kept)
        part = dataclasses.replace(fold, test=test)
        yield Measurement(f"fold-{number}", run.checkpoint(number), manifest, part, run.fold(number))


def _other_faces(request: EvaluationRequest, run: Run | None, data: Path) -> Iterator[Measurement]:
    """Each checkpoint on the test parts of a setup, or on all faces of a data folder.

    Where the faces are those of the run that the checkpoint is from, its training part is known, for the leakage.
    """
    config = run.config if run else load_file(request.model).config
    owner, number = (run, 0) if run else owner_of(request.model)
    manifest = _read_data(request, owner, data, config)
    trained = _trained_on(owner, manifest)
    if run:
        checkpoints = [(f"fold-{n}", run.checkpoint(n), n) for n in finished_folds(run)]
    else:
        checkpoints = [("", request.model, number)]
    tests = [("", tuple(range(len(manifest.samples))))]
    if request.setup:
        folds = _setup_folds(manifest, config, request.setup)
        tests = [(f"{request.setup}-{fold.number}", fold.test) for fold in folds]
    for name, checkpoint, fold_number in checkpoints:
        train, val = trained.get(fold_number, ((), ()))
        for part, test in tests:
            yield Measurement("/".join(filter(None, (name, part))), checkpoint, manifest, Fold(1, train, val, test))


def _read_data(request: EvaluationRequest, owner: Run | None, data: Path, config: Config) -> Manifest:
    """The faces of a data folder without the excluded ones; of a run's own folder, those that the run was given."""
    if owner is not None and data.resolve() == owner.data.resolve():
        return _leave_out(request, read_faces(owner, data)[0], config)
    excluded = read_names(Path(request.exclude)) if request.exclude else ()
    return read_manifest(data, AgeGrid(config.ages.low, config.ages.high), exclude=excluded)


def _leave_out(request: EvaluationRequest, manifest: Manifest, config: Config) -> Manifest:
    """A manifest without the faces that `--exclude` names."""
    if not request.exclude:
        return manifest
    grid, paths = AgeGrid(config.ages.low, config.ages.high), {sample.path for sample in manifest.samples}
    return read_manifest(manifest.folder, grid, paths=paths, exclude=read_names(Path(request.exclude)))


def _trained_on(run: Run | None, manifest: Manifest) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
    """For each fold of a run: the indices of its training and validation faces in `manifest`, if that is the run's."""
    if run is None or manifest.folder.resolve() != run.data.resolve():
        return {}
    own, folds = read_faces(run)
    index_of = {sample.path: index for index, sample in enumerate(manifest.samples)}
    paths = [sample.path for sample in own.samples]
    return {fold.number: (_indices(fold.train, paths, index_of), _indices(fold.val, paths, index_of)) for fold in folds}


def _indices(part: Sequence[int], paths: Sequence[str], index_of: dict[str, int]) -> tuple[int, ...]:
    """Indices into one manifest as indices into another; faces that the other lacks are left out."""
    return tuple(index_of[paths[i]] for i in part if paths[i] in index_of)


def _setup_folds(manifest: Manifest, config: Config, setup: str) -> list[Fold]:
    """The folds of a setup, without validation parts. Raises InputError if there is no such setup."""
    data = configs.replace(config, {"data.setup": setup}).data
    return make_folds(manifest.samples, dataclasses.replace(data, val_share=0.0), config.training.seed)
