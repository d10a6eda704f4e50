"""The Gumbel distribution of extreme values, and how it is fitted to minimum distances."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

EULER = 0.5772156649015329  # the Euler-Mascheroni constant


class Gumbel(NamedTuple):
    """Location and scale; both are tensors of the same shape."""

    mu: Tensor
    sigma: Tensor


def log_density(d: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Logarithm of the Gumbel density in the form with alpha and beta; all arguments broadcast."""
    # <paper2code name="log density of the prior">
    log_y = torch.log(alpha) - beta * d
    return torch.log(beta) + log_y - log_y.exp()
    # </paper2code name="log density of the prior">


def mode_shift(alpha: Tensor, beta: Tensor) -> Tensor:
    """The shift of distances with which the prior is largest at a distance of 0."""
    # <paper2code name="shift to the mode">
    return torch.log(alpha) / beta
    # </paper2code name="shift to the mode">


def fit_moments(samples: Tensor) -> Gumbel:
    """Fit by the method of moments, along the last dimension.

    Args:
        samples: (..., n).

    Returns:
        Location and scale, each of shape (...).
    """
    # <paper2code name="fit by moments">
    sigma = samples.std(dim=-1, correction=0) * math.sqrt(6) / math.pi
    return Gumbel(samples.mean(dim=-1) - EULER * sigma, sigma)
    # </paper2code name="fit by moments">


def fit_likelihood(samples: Tensor, halvings: int = 60) -> Gumbel:
    """Fit by maximum likelihood, along the last dimension, with bisection for the scale.

    Args:
        samples: (..., n), finite.
        halvings: how often the bracket is halved, at least 0.

    Returns:
        Location and scale, each of shape (...).

    Raises:
        ValueError: ``halvings`` is negative, or all samples of a row are equal.
    """
    # <paper2code name="fit by maximum likelihood">
    if halvings < 0:
        raise ValueError(f"halvings must not be negative, but is {halvings}")
    mean = samples.mean(dim=-1, keepdim=True)
    least = samples.amin(dim=-1, keepdim=True)
    if bool((samples == least).all(dim=-1).any()):
        raise ValueError("samples that are all equal have no scale")
    above = samples - least
    low = torch.zeros_like(mean)
    high = mean - least
    for _ in range(halvings):
        sigma = (low + high) / 2
        # <paper2code name="likelihood equation of the scale">
        weights = torch.softmax(-above / sigma, dim=-1)
        excess = sigma - (mean - least) + (weights * above).sum(dim=-1, keepdim=True)
        # </paper2code name="likelihood equation of the scale">
        below = excess < 0
        low = torch.where(below, sigma, low)
        high = torch.where(below, high, sigma)
    sigma = (low + high) / 2
    mu = least - sigma * torch.exp(-above / sigma).mean(dim=-1, keepdim=True).log()
    return Gumbel(mu.squeeze(-1), sigma.squeeze(-1))
    # </paper2code name="fit by maximum likelihood">
