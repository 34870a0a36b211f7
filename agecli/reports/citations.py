"""Citations as BibTeX: the tool, the paper, the data sets of a run and its backbone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from agecli.core.config import Config
from agecli.core.version import __version__
from agecli.datasets.sources.names import PARSERS

LEAST = 0.02  # share of the names of a run's photos that a data set must fit: a name may fit another one by chance
TRIED = 2000  # names that are looked at
DEFAULT_MODEL = ("utkface", "aaf", "appa-real", "imdb-wiki")  # its training sets (models/README.md)

ENTRIES: dict[str, tuple[str, dict[str, str]]] = {  # by key: the kind, and the fields in their order
    "agecli": ("misc", {"title": "agecli: age estimation from faces with Deep Differentiable Random Forests",
               "author": "{The agecli authors}", "version": __version__, "year": "2026"}),
    "shen2021": ("article", {"title": "Deep Differentiable Random Forests for Age Estimation",
              "author": "Shen, Wei and Guo, Yilu and Wang, Yan and Zhao, Kai and Wang, Bo and Yuille, Alan",
              "journal": "IEEE Transactions on Pattern Analysis and Machine Intelligence", "year": "2021",
              "eprint": "1907.10665", "archiveprefix": "arXiv"}),
    "morph": ("inproceedings", {"title": "MORPH: A Longitudinal Image Database of Normal Adult Age-Progression",
              "author": "Ricanek, Karl and Tesafaye, Tamirat",
              "booktitle": "International Conference on Automatic Face and Gesture Recognition", "year": "2006"}),
    "fgnet": ("article", {"title": "Overview of Research on Facial Ageing Using the FG-NET Ageing Database",
              "author": "Panis, Gabriel and Lanitis, Andreas and Tsapatsoulis, Nicholas and Cootes, Timothy F.",
              "journal": "IET Biometrics", "volume": "5", "year": "2016"}),
    "cacd": ("article", {"title": "Face Recognition and Retrieval Using Cross-Age Reference Coding With Cross-Age Celebrity Dataset",
             "author": "Chen, Bor-Chun and Chen, Chu-Song and Hsu, Winston H.",
             "journal": "IEEE Transactions on Multimedia", "volume": "17", "year": "2015"}),
    "utkface": ("inproceedings", {"title": "Age Progression/Regression by Conditional Adversarial Autoencoder",
                "author": "Zhang, Zhifei and Song, Yang and Qi, Hairong",
                "booktitle": "IEEE Conference on Computer Vision and Pattern Recognition", "year": "2017"}),
    "afad": ("inproceedings", {"title": "Ordinal Regression with Multiple Output CNN for Age Estimation",
             "author": "Niu, Zhenxing and Zhou, Mo and Wang, Le and Gao, Xinbo and Hua, Gang",
             "booktitle": "IEEE Conference on Computer Vision and Pattern Recognition", "year": "2016"}),
    "aaf": ("article", {"title": "Exploiting Effective Facial Patches for Robust Gender Recognition",
            "author": "Cheng, Jingchun and Li, Yali and Wang, Jilong and Yu, Le and Wang, Shengjin",
            "journal": "Tsinghua Science and Technology", "volume": "24", "year": "2019"}),
    "agedb": ("inproceedings", {"title": "AgeDB: The First Manually Collected, In-the-Wild Age Database",
              "author": "Moschoglou, Stylianos and Papaioannou, Athanasios and Sagonas, Christos and Deng, Jiankang and Kotsia, Irene "
                         "and Zafeiriou, Stefanos",
              "booktitle": "IEEE Conference on Computer Vision and Pattern Recognition Workshops", "year": "2017"}),
    "appa-real": ("inproceedings", {"title": "Apparent and Real Age Estimation in Still Images with Deep Residual Regressors on APPA-REAL Database",
                  "author": "Agustsson, Eirikur and Timofte, Radu and Escalera, Sergio and Bar{\\'o}, Xavier and Guyon, Isabelle and Rothe, Rasmus",
                  "booktitle": "International Conference on Automatic Face and Gesture Recognition", "year": "2017"}),
    "chalearn": ("inproceedings", {"title": "ChaLearn Looking at People 2015: Apparent Age and Cultural Event Recognition Datasets and Results",
                 "author": "Escalera, Sergio and others",
                 "booktitle": "IEEE International Conference on Computer Vision Workshops", "year": "2015"}),
    "imdb-wiki": ("inproceedings", {"title": "DEX: Deep EXpectation of Apparent Age from a Single Image",
                  "author": "Rothe, Rasmus and Timofte, Radu and Van Gool, Luc",
                  "booktitle": "IEEE International Conference on Computer Vision Workshops", "year": "2015"}),
    "fae-b": ("inproceedings", {"title": "A Call to Reflect on Evaluation Practices for Age Estimation: Comparative Analysis of the State-of-the-Art "
                                         "and a Unified Benchmark",
              "author": "Paplh{\\'a}m, Jakub and Franc, Vojt{\\v e}ch",
              "booktitle": "IEEE/CVF Conference on Computer Vision and Pattern Recognition", "year": "2024"}),
    "vgg": ("inproceedings", {"title": "Very Deep Convolutional Networks for Large-Scale Image Recognition",
            "author": "Simonyan, Karen and Zisserman, Andrew",
            "booktitle": "International Conference on Learning Representations", "year": "2015"}),
    "resnet": ("inproceedings", {"title": "Deep Residual Learning for Image Recognition",
               "author": "He, Kaiming and Zhang, Xiangyu and Ren, Shaoqing and Sun, Jian",
               "booktitle": "IEEE Conference on Computer Vision and Pattern Recognition", "year": "2016"}),
    "mobilenet": ("inproceedings", {"title": "Searching for MobileNetV3", "author": "Howard, Andrew and others",
                  "booktitle": "IEEE/CVF International Conference on Computer Vision", "year": "2019"}),
    "efficientnet": ("inproceedings", {"title": "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks",
                     "author": "Tan, Mingxing and Le, Quoc V.",
                     "booktitle": "International Conference on Machine Learning", "year": "2019"}),
    "edgeface": ("article", {"title": "EdgeFace: Efficient Face Recognition Model for Edge Devices",
                 "author": "George, Anjith and Ecabert, Christophe and Otroshi Shahreza, Hatef and Kotwal, Ketan and Marcel, S{\\'e}bastien",
                 "journal": "IEEE Transactions on Biometrics, Behavior, and Identity Science", "year": "2024"}),
    "timm": ("misc", {"title": "PyTorch Image Models", "author": "Wightman, Ross", "year": "2019",
             "howpublished": "https://github.com/huggingface/pytorch-image-models"}),
}  # fmt: skip
# Parts of the name of a network, and what to cite for it.
BACKBONES = {"vgg": "vgg", "resnet": "resnet", "mobilenet": "mobilenet", "efficientnet": "efficientnet", "edgeface": "edgeface", "edgenext": "edgeface"}  # fmt: skip


def cite(run: Path | None = None) -> Iterator[str]:
    """The BibTeX entries for a run folder, or for the default model if there is none, one after the other, and a comment for
    what is not known.

    Raises MissingError if the folder holds no run.

    >>> next(cite()).splitlines()[0]
    '@misc{agecli,'
    """
    yield from map(entry, ("agecli", "shen2021"))
    if run is None:
        yield "% the default model: its training sets and its backbone"
        yield from map(entry, (*DEFAULT_MODEL, "edgeface"))
        return
    from agecli.training.run_folder import open_run, read_splits

    config = open_run(run).config
    known = data_sets([path for _, _, path in read_splits(run / "splits.csv")])
    if not known:
        yield "% the data set of this run is not recognised by the names of its photos: please add it"
    yield from map(entry, dict.fromkeys([*known, *backbone(config)]))


def data_sets(paths: list[str]) -> list[str]:
    """The data sets whose names the photos have, the most frequent first.

    >>> data_sets(["faces/001A02.JPG.jpg"])
    ['fgnet']
    """
    tried = paths[:: max(1, len(paths) // TRIED)]
    fitting = (name for path in tried for name, parse in PARSERS.items() if parse(_photo(path)))
    found = Counter(fitting)
    return [name for name, count in found.most_common() if count >= LEAST * len(tried)]


def _photo(path: str) -> str:
    """The path of the photo that an aligned face was cut from: `preprocess` adds an ending."""
    stem, _, ending = path.rpartition(".")
    return stem if "." in stem.rpartition("/")[2] and ending else path


def backbone(config: Config) -> Iterator[str]:
    """The keys of what to cite for the network of a run and for its initial weights."""
    if "default" in (config.init, config.backbone.weights):
        yield from ("edgeface", *DEFAULT_MODEL)
        return
    name = config.backbone.name.lower()
    yield from (key for part, key in BACKBONES.items() if part in name)
    if name.startswith("timm:"):
        yield "timm"


def entry(key: str) -> str:
    """One entry, by its key in ENTRIES."""
    kind, fields = ENTRIES[key]
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])
