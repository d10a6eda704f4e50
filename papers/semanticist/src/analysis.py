"""Are the tokens like principal components, and do they hold meaning or mere frequencies?"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Explained(NamedTuple):
    """What the first tokens explain.

    Attributes:
        cumulative: (K,): share of the variance of the images that the first k tokens explain.
        gains: (K,): what each token adds.
        ordered: whether no token adds more than the one before it.
    """

    cumulative: Tensor
    gains: Tensor
    ordered: bool


def explained_variance(images: Tensor, reconstructions: Tensor) -> Explained:
    """How the explained variance grows with the number of tokens.

    Args:
        images: (M, ...).
        reconstructions: (K, M, ...): of the same images from their first 1, 2, ..., K tokens.

    Raises:
        ValueError: the images are all the same.
    """
    # <paper2code name="variance explained by first tokens">
    if (images == images[:1]).all():  # their mean may differ from them by rounding
        raise ValueError("the images do not vary")
    total = (images - images.mean(dim=0)).square().sum()
    missed = torch.stack([(images - r).square().sum() for r in reconstructions])  # (K,)
    cumulative = 1 - missed / total
    gains = torch.cat([cumulative[:1], cumulative.diff()])
    return Explained(cumulative, gains, bool((gains.diff() <= 0).all()))
    # </paper2code name="variance explained by first tokens">


def radial_spectrum(images: Tensor) -> Tensor:
    """Mean power of images (B, C, n, n) at each spatial frequency 0, 1, ..., n // 2.

    Returns:
        (n // 2 + 1,): the mean of ``|F|^2 / n^2`` over images, channels, and all frequencies whose
        distance from zero is nearest to this number.
    """
    # <paper2code name="radial power spectrum">
    *_, n = images.shape
    power = torch.fft.fft2(images).abs().square().flatten(end_dim=-3).mean(dim=0) / n**2
    frequency = torch.fft.fftfreq(n, dtype=power.dtype) * n  # whole numbers
    radius = torch.hypot(frequency[:, None], frequency).round()
    return torch.stack([power[radius == r].mean() for r in range(n // 2 + 1)])
    # </paper2code name="radial power spectrum">
