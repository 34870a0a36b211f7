"""The model: pixels -> backbone -> f -> forest -> a probability mass function on the age grid."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from agecli.core.ages import AgeGrid
from agecli.core.config import Config
from agecli.core.seeding import derive
from agecli.forest import categorical
from agecli.forest.forests import CategoricalForest, GaussianForest, Top
from agecli.forest.gaussian import Gaussians
from agecli.forest.grids import SMALLEST_VARIANCE, youth_prior
from agecli.forest.regression import Regression
from agecli.forest.routing import draw_phi
from agecli.images.reading import PictureSpec
from agecli.model.backbones import build_backbone
from agecli.model.integers import use_integers
from agecli.model.thinning import make_thin


class Standardise(nn.Module):
    """(x - mean) / std, with constants that are saved with the model, but not learned by back-propagation."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, x: Tensor) -> Tensor:
        """Standardise along the dimensions of mean and std; the same shape, float32."""
        return (x.float() - self.mean) / self.std


class Mirrored(nn.Module):
    """The mean of the features of a face and of its mirror image, in twice the time."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, D)"""
        features: Tensor = (self.network(pixels) + self.network(pixels.flip(-1))) / 2
        return features


class AgeModel(nn.Module):
    """A backbone, a linear layer f, and a head on the units of f: a forest, or regression as a baseline.

    picture: size, crop and colours of the input; mirror: whether features are averaged over the mirror image.

    >>> pmf = build_model(Config())(torch.zeros(1, 3, 224, 224))  # (1, 121)
    """

    def __init__(
        self, backbone: nn.Module, f: nn.Linear, forest: Top, picture: PictureSpec, mirror: bool = False
    ) -> None:
        super().__init__()
        self.picture, self.mirror = picture, mirror
        colours = (torch.tensor(values).view(3, 1, 1) * 255 for values in (picture.mean, picture.std))
        self.colours = Standardise(*colours)
        self.backbone = backbone
        self.scale = Standardise(torch.zeros(f.in_features), torch.ones(f.in_features))
        self.f = f
        self.forest = forest

    @property
    def extractor(self) -> nn.Sequential:
        """Pixels (B, 3, H, W), 0 to 255 -> features (B, D): what is cached if the backbone is frozen."""
        return nn.Sequential(self.colours, Mirrored(self.backbone) if self.mirror else self.backbone)

    @property
    def head(self) -> nn.Module:
        """Features (B, D) -> f(x), the units behind the split nodes (B, M)."""
        return nn.Sequential(self.scale, self.f)

    @property
    def network(self) -> nn.Module:
        """Pixels (B, 3, H, W), 0 to 255 -> f(x) (B, M)."""
        return nn.Sequential(*self.extractor, self.scale, self.f)

    def ages(self, units: Tensor) -> Tensor:
        """The distribution of the age of each face.   (B, M) -> (B, A)"""
        return self.forest.pmf(self.forest.route(units))

    def forward(self, pixels: Tensor) -> Tensor:
        """Pixels (B, 3, H, W), 0 to 255 -> the distribution of each age (B, A)."""
        return self.ages(self.network(pixels))


def build_model(config: Config) -> AgeModel:
    """A model with random weights, drawn from the seed, and leaves before `start_leaves`.

    Raises InputError if the config names an unknown backbone, or a size, fewer hidden units or integers that it can't take.
    """
    seed = config.training.seed
    with torch.random.fork_rng(devices=[]):  # the caller's random state does not change
        torch.manual_seed(derive(seed, "weights"))
        backbone = build_backbone(
            config.backbone.name,
            config.data.size,
            config.data.crop_share,
            config.backbone.drop_path,
            config.backbone.stages,
        )
        if config.backbone.hidden < 1:
            make_thin(backbone.network, config.backbone.name, config.backbone.hidden)
        if config.backbone.int8:
            use_integers(backbone.network, config.backbone.name)
        f = nn.Linear(backbone.features, 1 if config.model == "regression" else config.forest.units)
        nn.init.normal_(f.weight, std=config.forest.units_std)
        nn.init.zeros_(f.bias)
    grid = AgeGrid(config.ages.low, config.ages.high)
    phi_source = torch.Generator().manual_seed(derive(seed, "phi", config.forest.assignment))
    phi = draw_phi(config.forest.trees, config.forest.splits, config.forest.units, phi_source)
    return AgeModel(backbone.network, f, build_forest(config, phi, grid), backbone.picture, config.backbone.mirror)


def build_forest(config: Config, phi: Tensor, grid: AgeGrid) -> Top:
    """The head of the model that the config names. phi: (K, N); see `start_leaves` for its leaves."""
    forest = config.forest
    floor = max(forest.variance_floor, SMALLEST_VARIANCE)
    top: Top
    if config.model == "regression":
        top = Regression(grid, floor)
    elif config.model in ("dldlf", "dndf"):
        pi = categorical.uniform_start(forest.trees, forest.leaves, len(grid))
        top = CategoricalForest(phi, pi, grid, forest.alpha, forest.pseudo_count)
    else:
        shape = (forest.trees, forest.leaves)
        unknown = Gaussians(torch.zeros(shape), torch.ones(shape))
        posterior = config.model != "drf-nrf"
        top = GaussianForest(phi, unknown, grid, floor, forest.leaf_init, posterior, forest.noise)
    if config.ages.readout != "paper":
        top.readout = config.ages.readout
    if config.ages.prior:
        top.prior = youth_prior(grid, config.ages.prior, config.ages.prior_until)
    return top


def start_leaves(top: Top, ages: Tensor, seed: int) -> None:
    """Initialise the leaves from the training ages (n,), in years."""
    top.start(ages, torch.Generator().manual_seed(derive(seed, "leaves")))
