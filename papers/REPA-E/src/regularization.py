"""What keeps the VAE a VAE: reconstruction, a perceptual distance, and a prior on latents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

LATENT = (1, 2, 3)  # the dimensions of one latent


class Posterior(NamedTuple):
    """A diagonal Gaussian for the latent. Both (B, C, H, W)."""

    mean: Tensor
    logvar: Tensor

    def sample(self, noise: Tensor) -> Tensor:
        """The reparametrized draw for standard normal noise."""
        return self.mean + (0.5 * self.logvar).exp() * noise


def kl_divergence(posterior: Posterior) -> Tensor:
    """(B,): divergence from the standard normal, summed over all dimensions."""
    # <paper2code name="divergence from the prior">
    mean, logvar = posterior
    return 0.5 * (mean.square() + logvar.exp() - 1 - logvar).sum(dim=LATENT)
    # </paper2code name="divergence from the prior">


def perceptual_distance(
    features: Callable[[Tensor], Sequence[Tensor]], x: Tensor, y: Tensor, epsilon: float = 1e-10
) -> Tensor:
    """(B,): squared distance of unit feature vectors, mean over positions, summed over layers.

    Args:
        features: images to feature maps (B, C_l, H_l, W_l), one for each layer.
    """
    # <paper2code name="perceptual distance">
    total = x.new_zeros(len(x))
    for a, b in zip(features(x), features(y)):
        a = a / (a.square().sum(dim=1, keepdim=True).sqrt() + epsilon)
        b = b / (b.square().sum(dim=1, keepdim=True).sqrt() + epsilon)
        total = total + (a - b).square().sum(dim=1).mean(dim=(1, 2))
    return total
    # </paper2code name="perceptual distance">
