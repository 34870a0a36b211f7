"""The command line as a user meets it: quick help, plain errors, the right exit codes."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import agecli
from agecli.cli.train import train
from agecli.core.config import OPTIONS, Config, describe, settings
from tests.conftest import Cli, invoke

SMALL = (
    "--backbone",
    "timm:test_efficientnet",
    "--weights",
    "none",
    "--set",
    "data.size=64",
    "--batch-size",
    "16",
    "--freeze",
)


def test_help_and_version_do_not_import_torch() -> None:
    for arguments in (["--help"], ["--version"], ["train", "--help"], ["info", "--settings"]):
        code = f"import sys; from agecli.cli import app; app({arguments!r}, standalone_mode=False); assert 'torch' not in sys.modules"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr


def test_a_command_starts_without_the_modules_of_other_commands() -> None:
    code = (
        "import sys; sys.argv[1:] = ['predict', '--help']; from agecli.cli import main; "
        "import atexit; atexit.register(lambda: print(sorted(name for name in sys.modules if name.startswith('agecli.cli.'))))"
        "; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "'agecli.cli.predict'" in done.stdout
    assert "agecli.cli.train" not in done.stdout


def test_the_quick_exit_keeps_the_exit_code_the_output_and_exit_handlers() -> None:
    code = "import atexit; atexit.register(print, 'handled'); from agecli.__main__ import main; main()"
    for arguments, exit_code, said in (
        (["--version"], 0, agecli.__version__),
        (["predict", "--nonsense"], 2, "handled"),
    ):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)
        assert done.returncode == exit_code, done.stderr
        assert said in done.stdout
        assert done.stdout.endswith("handled\n")


def test_version_and_info(cli: Cli) -> None:
    assert cli("--version").stdout == f"agecli {agecli.__version__}\n"
    said = cli("info").stdout
    for word in ("agecli", "torch", "cuda", "torchvision weights", "feature cache", "efficientnet-lite0"):
        assert word in said


def test_completion_is_there(cli: Cli) -> None:
    done = cli("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_AGECLI_COMPLETE" in done.stdout or "complete" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--data", "nowhere"), 3, "there is no data folder nowhere"),
        (("--depth", 1), 2, "`forest.depth` is 1"),
        (("--units", 30), 2, "--units 31"),
        (("--set", "forest.tree=4"), 2, "did you mean `forest.trees`?"),
        (("--set", "forest.trees"), 2, "--set section.key=value"),
        (("--model", "cnn"), 2, "drf, dldlf"),
        (("--setup", "IX"), 2, "lopo"),
        (("--preset", "future"), 2, "modern, paper"),
        (("--backbone", "vgg61"), 2, "vgg16"),
        (("--device", "cuda:7"), 3, "not there"),
        (("--device", "abacus"), 2, "unknown device `abacus`"),
        (("--batch-size", 500), 2, "--batch-size 85 or less"),
        (("--weights", "gone.pth"), 3, "there is no weights file gone.pth"),
        (("--folds", "2"), 2, "folds 1 to 1"),
        (("--folds", "a-b"), 2, "no range of folds"),
        (("--config", "gone.toml"), 3, "there is no config file gone.toml"),
    ],
)
def test_a_wrong_call_of_train(toy: Path, tmp_path: Path, arguments: tuple[object, ...], code: int, says: str) -> None:
    base: tuple[object, ...] = ("--data", toy, "--out", tmp_path / "run", *SMALL)
    done = invoke("train", *base, *arguments)
    assert done.exit_code == code, done.output
    assert says in done.stderr
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr
    assert "Traceback" not in done.output
    assert done.stdout == ""
    assert not (tmp_path / "run").exists()  # so that the same call, mended, is not told that there is a run already


def test_the_options_of_train_show_the_defaults_of_the_config() -> None:
    shown = dict(settings(Config()))
    parameters = inspect.signature(train).parameters
    for name, setting in OPTIONS.items():
        option = parameters[name].annotation.__metadata__[0]
        assert option.show_default in (str(shown[setting]), f"{shown[setting]}".removesuffix(".0"), "none")
        assert option.help.lower().startswith(describe(setting).about.lower())
    assert set(OPTIONS) <= set(inspect.signature(agecli.train).parameters)


def test_verbose_adds_debug_messages_and_quiet_takes_all_but_warnings(toy: Path, tmp_path: Path) -> None:
    base = ("train", "--data", toy, *SMALL, "--iterations", 50)
    plain = invoke(*base, "--out", tmp_path / "plain").stderr
    verbose = invoke(*base, "--out", tmp_path / "verbose", "--verbose").stderr
    quiet = invoke(*base, "--out", tmp_path / "quiet", "--quiet").stderr
    assert "iteration 50: {'loss'" in verbose
    assert "features of" in verbose
    assert "{'loss'" not in plain
    assert "validation MAE" in plain
    assert "validation MAE" not in quiet


@pytest.mark.parametrize("backbone", ["vgg16", "timm:resnet10t"])
def test_weights_that_can_not_be_downloaded_end_with_the_file_and_its_place(
    toy: Path, tmp_path: Path, cli: Cli, backbone: str
) -> None:
    """No network, whatever this machine has: the proxy leads nowhere and the caches are empty."""
    nowhere = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    empty = {"TORCH_HOME": str(tmp_path / "torch"), "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    done = cli("train", "--data", toy, "--backbone", backbone, **nowhere, **empty)
    assert done.returncode == 3, done.stderr
    assert f"the ImageNet weights of {backbone} are not here" in done.stderr
    if backbone == "vgg16":
        assert str(tmp_path / "torch/hub/checkpoints/vgg16-397923af.pth") in done.stderr
    else:
        assert "--weights FILE" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def trained(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "run"
    agecli.train(
        toy,
        out=out,
        backbone="timm:test_efficientnet",
        weights="none",
        freeze=True,
        iterations=60,
        settings={"data.size": 64, "data.val_share": 0.4},
    )
    return out / "fold-1/best.safetensors"


def test_every_photo_gets_a_record_in_order(cli: Cli, toy: Path, tmp_path: Path, trained: Path) -> None:
    photos = sorted((toy / "images").iterdir())[:3]
    (tmp_path / "bad.jpg").write_text("no picture")
    done = cli("predict", *photos[:2], "bad.jpg", "gone.jpg", photos[2], "--no-detect", "-m", trained)
    assert done.returncode == 1
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["source"] for record in records] == [
        str(photos[0]),
        str(photos[1]),
        "bad.jpg",
        "gone.jpg",
        str(photos[2]),
    ]
    assert [record["status"] for record in records] == ["ok", "ok", "unreadable", "unreadable", "ok"]
    assert list(records[0]) == [
        "schema",
        "source",
        "status",
        "face",
        "age",
        "std",
        "low",
        "high",
        "coverage",
        "box",
        "score",
        "error",
        "interval",
        "time",
        "track",
        "eyes",
        "sharpness",
        "shift",
    ]
    assert records[0]["box"] == [0, 0, 160, 160]
    assert records[0]["low"] <= records[0]["age"] <= records[0]["high"]
    assert records[3]["error"] == "there is no such file"
    assert "2 of 5 inputs gave no age: bad.jpg: it is not a picture" in done.stderr
    (tmp_path / "empty").mkdir()
    done = cli("predict", "empty", "none*.jpg", photos[0], "--no-detect", "-m", trained)
    errors = [json.loads(line)["error"] for line in done.stdout.splitlines()]
    assert errors == ["it is a folder without pictures", "no file matches this pattern", None]


def test_formats_and_files(cli: Cli, toy: Path, tmp_path: Path) -> None:
    base = ("predict", toy / "images", "--no-detect")
    table = cli(*base, "--format", "table").stdout.splitlines()
    assert table[0].split() == ["age", "90", "%", "interval", "0", "20", "40", "60", "80", "photo"]
    assert len(table) == 121
    assert all("█" in line for line in table[1:])
    assert cli(*base, "-o", "ages.csv").stdout == ""
    lines = (tmp_path / "ages.csv").read_text().splitlines()
    assert (
        lines[0]
        == "schema,source,status,face,age,std,low,high,coverage,box_x,box_y,box_w,box_h,score,error,interval,time,track,eyes,sharpness,shift"
    )
    assert len(lines) == 121
    assert lines[1].split(",")[9:13] == ["0", "0", "160", "160"]


def test_names_from_globs_lists_and_stdin(cli: Cli, toy: Path, tmp_path: Path) -> None:
    odd = tmp_path / "a b\nc.jpg"
    photo = next((toy / "images").iterdir())
    shutil.copy(photo, odd)
    (tmp_path / "list.txt").write_text(f"{photo}\r\n\n{photo}\n")
    base = ("predict", "--no-detect")
    assert len(cli(*base, f"{toy}/images/000*.jpg").stdout.splitlines()) == 60
    assert len(cli(*base, "@list.txt").stdout.splitlines()) == 2
    assert len(cli(*base, "-", stdin=os.fsencode(photo) + b"\n").stdout.splitlines()) == 1
    records = cli(*base, "-", "-0", stdin=os.fsencode(odd) + b"\0" + os.fsencode(photo) + b"\0").stdout.splitlines()
    assert [json.loads(record)["source"] for record in records] == [str(odd), str(photo)]


def test_file_names_need_not_be_utf8(toy: Path, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9.jpg"
    Path(os.fsdecode(name)).write_bytes(next((toy / "images").iterdir()).read_bytes())
    command: list[str | bytes] = [sys.executable, "-m", "agecli", "predict", name, "--no-detect"]
    for form in ("csv", "table", "jsonl"):
        environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
        done = subprocess.run([*command, "--format", form], capture_output=True, env=environment, timeout=120)
        assert done.returncode == 0, done.stderr
        assert form == "jsonl" or name in done.stdout


def test_a_path_that_can_not_be_written_is_named(toy: Path, tmp_path: Path, trained: Path) -> None:
    (tmp_path / "file").touch()
    photo = next((toy / "images").iterdir())
    done = invoke("predict", photo, "--no-detect", "-m", trained, "-o", tmp_path / "file/x.csv")
    assert done.exit_code == 2
    assert "file" in done.stderr
    assert done.stderr.startswith("error: ")


def test_a_reader_that_has_seen_enough_is_no_error(toy: Path) -> None:
    command = f"{sys.executable} -m agecli predict {toy}/images --no-detect --batch-size 1 | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("predict", "x.jpg", "--resume"), 2, "name it with --output FILE"),
        (("predict", "x.jpg", "--every", "soon"), 2, "write --every 1s"),
        (("predict", "x.jpg", "-m", "gone.safetensors", "--no-detect"), 3, "there is no checkpoint gone.safetensors"),
        (("predict", "x.jpg", "-m", "gone.safetensors"), 3, "there is no checkpoint gone.safetensors"),
        (("predict", "x.jpg", "--no-detect", "-m", ".", "--readout", "best"), 2, "mean, median, mode"),
        (("predict", "x.jpg", "--no-detect", "-m", "."), 2, "fold-1/best.safetensors"),
        (("evaluate", "pyproject.toml", "--data", "."), 2, "is no model: neither a whole safetensors file"),
        (("toy", "."), 2, "not empty"),
        (("evaluate",), 2, "name a folder with --data DIR"),
        (("evaluate", "gone"), 3, "there is no run or checkpoint gone"),
        (("evaluate", "."), 3, "is no run folder"),
    ],
)
def test_a_wrong_call_of_predict_and_evaluate(arguments: tuple[object, ...], code: int, says: str) -> None:
    done = invoke(*arguments)
    assert done.exit_code == code, done.output
    assert says in done.stderr


def test_an_unknown_option_is_wrong_use() -> None:
    assert invoke("train", "--tree", 3).exit_code == 2
    assert invoke("fly").exit_code == 2


def test_python_has_the_same_verbs(toy: Path, trained: Path) -> None:
    photo = next((toy / "images").iterdir())
    (record,) = agecli.predict(photo, model=trained, no_detect=True)
    assert record.status == "ok"
    (result,) = agecli.evaluate(trained.parent.parent)
    assert result.metrics.images == 24


def test_a_photo_in_place_of_a_command_gets_the_command(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").touch()
    done = invoke(tmp_path / "photo.jpg")
    assert done.exit_code == 2
    assert f"agecli predict {tmp_path / 'photo.jpg'}" in done.stderr
