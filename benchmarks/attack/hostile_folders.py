"""Hostile run folders, data folders and tables. Each maker writes files and returns the arguments of `agecli`."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.attack.hostile_models import DEEP, Maker, photo

ENVIRONMENT = {"data": "data", "manifest_sha256": "0", "backbone_sha256": "0", "folds": 1}
SPLITS = "fold,part,path,manifest\n1,train,a.jpg,x\n"


def run_folder(config: str | bytes = "", environment: object = ENVIRONMENT, splits: str = SPLITS) -> Maker:
    """A run folder with one finished fold, to evaluate."""

    def make(folder: Path) -> list[object]:
        run = folder / "run"
        (run / "fold-1").mkdir(parents=True)
        (run / "fold-1/metrics.csv").write_text("by\nall\n")
        (run / "config.toml").write_bytes(config if isinstance(config, bytes) else config.encode())
        text = environment if isinstance(environment, str) else json.dumps(environment)
        (run / "environment.json").write_text(text)
        (run / "splits.csv").write_text(splits)
        return ["evaluate", run]

    return make


def table(content: str | bytes, name: str = "manifest.csv") -> Maker:
    """A data folder with this table, to split."""

    def make(folder: Path) -> list[object]:
        photo(folder)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return ["split", folder, "--out", folder / "splits.csv"]

    return make


def config_file(content: str | bytes) -> Maker:
    """A TOML file for `train --config`."""

    def make(folder: Path) -> list[object]:
        (folder / "my.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
        return ["train", "--data", folder, "--config", folder / "my.toml", "--out", folder / "run"]

    return make


def matlab(write: Callable[[Path], object], name: str = "celebrity2000_meta.mat") -> Maker:
    """A data folder with this .mat file, to split."""

    def make(folder: Path) -> list[object]:
        os.rename(photo(folder), folder / "53_Robin_Williams_0001.jpg")
        write(folder / name)
        return ["preprocess", folder, "--dataset", "cacd" if "celeb" in name else "imdb-wiki", "--out", folder / "out"]

    return make


def compressed(path: Path) -> None:
    """A MATLAB 5 file of 1 MB that unpacks to 1 GB."""
    packer = zlib.compressobj(9)
    content = b"".join(packer.compress(bytes(1 << 20)) for _ in range(1024)) + packer.flush()
    path.write_bytes(b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(content)) + content)


def other_types(path: Path) -> None:
    """Fields of the data set with values of other types."""
    from scipy.io import savemat

    names = np.array(["53_Robin_Williams_0001.jpg"], dtype=object)
    fields = {"age": np.array([1e300]), "identity": np.array(["x"], dtype=object), "rank": np.array([np.inf])}
    savemat(path, {"celebrityImageData": {**fields, "year": np.array([1.0]), "birth": np.array([1.0]), "name": names}})


def large_hdf5(path: Path) -> None:
    """A MATLAB 7.3 file of a few kB whose field claims 10^12 values."""
    import h5py

    with h5py.File(path, "w", userblock_size=512) as file:
        group = file.create_group("celebrityImageData")
        for name in ("age", "identity", "year", "rank", "birth", "name"):
            group.create_dataset(name, shape=(10**6, 10**6), chunks=(1000, 1000), dtype="f8")
    with path.open("r+b") as head:
        head.write(b"MATLAB 7.3 MAT-file".ljust(512))


def outside_hdf5(path: Path) -> None:
    """A MATLAB 7.3 file whose values are the bytes of another file."""
    import h5py

    with h5py.File(path, "w", userblock_size=512) as file:
        group = file.create_group("celebrityImageData")
        for name in ("age", "identity", "year", "rank", "birth", "name"):
            group.create_dataset(name, shape=(4,), dtype="u1", external=[("/etc/passwd", 0, 4)])
    with path.open("r+b") as head:
        head.write(b"MATLAB 7.3 MAT-file".ljust(512))


def pickled(path: Path) -> None:
    """A pickled array under the name of a .mat file."""
    with path.open("wb") as file:
        np.save(file, np.array([print], dtype=object), allow_pickle=True)


FOLDERS: dict[str, Maker] = {
    "run: setting of another type": run_folder('[forest]\ntrees = "many"\n'),
    "run: setting a list": run_folder("[backbone]\nname = [1, 2]\n"),
    "run: unknown setting": run_folder("[forest]\ntree = 3\n"),
    "run: 10^9 ages": run_folder("[ages]\nhigh = 1000000000\n"),
    "run: infinite number": run_folder("[training]\nlr = inf\n"),
    "run: number of 10,000 digits": run_folder(f"[training]\nseed = {'9' * 10_000}\n"),
    "run: nested lists": run_folder(f"a = {'[' * 50_000}"),
    "run: config of 5 MB": run_folder("#" * 5_000_000),
    "run: config not UTF-8": run_folder(b"\xff\xfe\x00"),
    "run: config no TOML": run_folder("<html>"),
    "run: environment a list": run_folder(environment=[1]),
    "run: environment nested": run_folder(environment=DEEP),
    "run: environment without data": run_folder(environment={"folds": 1}),
    "run: 10^15 folds": run_folder(environment={**ENVIRONMENT, "folds": 10**15}),
    "run: folds of text": run_folder(environment={**ENVIRONMENT, "folds": "all"}),
    "run: data a number": run_folder(environment={**ENVIRONMENT, "data": 7}),
    "run: data NaN": run_folder(environment='{"data": NaN}'),
    "run: fold of text": run_folder(splits="fold,part,path\nx,train,a.jpg\n"),
    "run: other part": run_folder(splits="fold,part,path\n1,evil,a.jpg\n"),
    "run: splits without columns": run_folder(splits="a,b\n1,2\n"),
    "run: splits with a cell of 1 MB": run_folder(splits=f"fold,part,path\n1,train,{'a' * 1_000_000}\n"),
    "table: age NaN": table("path,age\nface.jpg,nan\n"),
    "table: age 1e309": table("path,age\nface.jpg,1e309\n"),
    "table: age of text": table("path,age\nface.jpg,old\n"),
    "table: outside": table("path,age\n../../etc/passwd,3\n"),
    "table: device": table("path,age\n/dev/zero,3\n"),
    "table: null bytes": table(b"path,age\nface\x00.jpg,3\n"),
    "table: quote without end": table('path,age\n"face.jpg,3\n'),
    "table: cell of 5 MB": table(f"path,{'a' * 5_000_000}\nface.jpg,3\n"),
    "table: a million columns": table("path,age" + ",a" * 1_000_000 + "\nface.jpg,3\n"),
    "table: empty": table(""),
    "table: random bytes": table(np.random.default_rng(2).bytes(5000), "labels.csv"),
    "toml: of another type": config_file("[training]\niterations = [1]\n"),
    "toml: too many iterations": config_file("[training]\niterations = 1000000000000\n"),
    "toml: nested": config_file(f"a = {'{a=' * 20_000}"),
    "toml: binary": config_file(bytes(range(256))),
    "mat: random bytes": matlab(lambda path: path.write_bytes(np.random.default_rng(3).bytes(5000))),
    "mat: empty": matlab(lambda path: path.write_bytes(b"")),
    "mat: pickled": matlab(pickled),
    "mat: unpacks to 1 GB": matlab(compressed),
    "mat: other types": matlab(other_types),
    "mat: claims 10^12 values": matlab(large_hdf5),
    "mat: values of another file": matlab(outside_hdf5),
    "mat: imdb of random bytes": matlab(lambda path: path.write_bytes(b"MATLAB 7.3" + bytes(600)), "imdb.mat"),
}
