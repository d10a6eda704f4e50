"""One isotropic Gaussian mixture per pixel; all Gaussians of a sample share their deviation."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class GaussianMixture(NamedTuple):
    """A batch of images of mixtures: B samples, K components, C channels, H x W pixels.

    Attributes:
        means: (B, K, C, H, W).
        logweights: (B, K, 1, H, W), normalized: the weights of a pixel sum to one.
        logstd: (B, 1, 1, 1, 1).
    """

    means: Tensor
    logweights: Tensor
    logstd: Tensor

    @property
    def variance(self) -> Tensor:
        """(B, 1, 1, 1, 1): variance of every component in every channel."""
        return (2 * self.logstd).exp()


def mixture_mean(gm: GaussianMixture) -> Tensor:
    """(B, C, H, W): the expectation at every pixel."""
    return torch.einsum("bkohw,bkchw->bchw", gm.logweights.exp(), gm.means)


def average_variance(gm: GaussianMixture) -> Tensor:
    """(B,): the total variance of a channel of a pixel, on average over both."""
    offsets = gm.means - mixture_mean(gm).unsqueeze(1)
    between = (gm.logweights.exp() * offsets.square()).sum(dim=1)  # (B, C, H, W)
    return between.flatten(1).mean(dim=1) + gm.variance.flatten()


def log_density(gm: GaussianMixture, x: Tensor) -> Tensor:
    """Log-density of every pixel under its mixture.

    Args:
        x: (B, C, H, W).

    Returns:
        (B, H, W).
    """
    # <paper2code name="log-density at every pixel">
    channels = x.shape[1]
    distance = (x.unsqueeze(1) - gm.means).square().sum(dim=2, keepdim=True)  # (B, K, 1, H, W)
    scale = channels * (gm.logstd + 0.5 * math.log(2 * math.pi))
    log_normal = -0.5 * distance / gm.variance - scale
    return torch.logsumexp(gm.logweights + log_normal, dim=1).squeeze(1)
    # </paper2code name="log-density at every pixel">


def sample(gm: GaussianMixture, uniforms: Tensor, noise: Tensor) -> Tensor:
    """Draw every pixel from its mixture with injected random numbers.

    Args:
        uniforms: (B, H, W), in [0, 1]: they choose the components.
        noise: (B, C, H, W), standard normal.

    Returns:
        (B, C, H, W).
    """
    # <paper2code name="draw from the mixtures">
    last = gm.means.shape[1] - 1
    cdf = gm.logweights.exp().cumsum(dim=1)  # (B, K, 1, H, W)
    chosen = (cdf <= uniforms[:, None, None]).sum(dim=1, keepdim=True)  # (B, 1, 1, H, W)
    centres = gm.means.take_along_dim(chosen.clamp(max=last), dim=1)  # (B, 1, C, H, W)
    drawn = centres + gm.logstd.exp() * noise.unsqueeze(1)
    return drawn.squeeze(1)
    # </paper2code name="draw from the mixtures">


def times_gaussian(gm: GaussianMixture, precision: Tensor, linear: Tensor) -> GaussianMixture:
    """Multiply the density q(x) of every pixel by exp(linear . x - precision |x|^2 / 2), and normalize.

    Args:
        precision: (B,); may be negative, as long as the product can be normalized.
        linear: (B, C, H, W).

    Raises:
        ValueError: for any sample, the product cannot be normalized.
    """
    # <paper2code name="mixture times a Gaussian">
    precision = precision.reshape(-1, 1, 1, 1, 1)
    linear = linear.unsqueeze(1)  # (B, 1, C, H, W)
    shrink = 1 + precision * gm.variance
    if not (shrink > 0).all():
        raise ValueError("the product with a Gaussian of this precision cannot be normalized")
    tilt = gm.means * linear - 0.5 * precision * gm.means**2
    tilt = tilt.sum(dim=2, keepdim=True) / shrink  # (B, K, 1, H, W)
    return GaussianMixture(
        means=(gm.means + gm.variance * linear) / shrink,
        logweights=(gm.logweights + tilt).log_softmax(dim=1),
        logstd=gm.logstd - 0.5 * shrink.log(),
    )
    # </paper2code name="mixture times a Gaussian">
