"""How hexagonal a response map is."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def autocorrelogram(rates: Tensor, min_overlap: int = 20) -> Tensor:
    """Correlation of a response map with itself, shifted by every possible lag.

    Args:
        rates: (n, n): response of one cell at the lattice points.
        min_overlap: a lag counts only if so many points lie over each other.

    Returns:
        (2n - 1, 2n - 1) in the dtype of ``rates``: entry ``[n - 1 + p, n - 1 + q]`` belongs to the
        lag (p, q). NaN where the lag does not count or one of the parts does not vary.
    """
    # <paper2code name="spatial autocorrelogram">
    n = len(rates)
    result = rates.new_full((2 * n - 1, 2 * n - 1), math.nan)
    for p in range(1 - n, n):
        for q in range(1 - n, n):
            # <paper2code name="overlap of a lag">
            top, left = max(p, 0), max(q, 0)
            high, wide = n - abs(p), n - abs(q)
            here = rates[top : top + high, left : left + wide]
            there = rates[top - p :, left - q :][:high, :wide]
            # </paper2code name="overlap of a lag">
            if here.numel() < min_overlap:
                continue
            a, b = here - here.mean(), there - there.mean()
            spread = (a.square().sum() * b.square().sum()).sqrt()
            result[n - 1 + p, n - 1 + q] = (a * b).sum() / spread
    return result
    # </paper2code name="spatial autocorrelogram">


def rotate(image: Tensor, degrees: float) -> Tensor:
    """Turn a square image (m, m) about its centre; what comes from outside or from NaN is NaN."""
    angle = math.radians(degrees)
    cos, sin = math.cos(angle), math.sin(angle)
    turn = image.new_tensor([[[cos, -sin, 0.0], [sin, cos, 0.0]]])
    grid = F.affine_grid(turn, [1, 1, *image.shape], align_corners=True)
    known = (~image.isnan()).to(image.dtype)
    layers = torch.stack([image.nan_to_num(), known]).unsqueeze(0)  # (1, 2, m, m)
    turned, weight = F.grid_sample(layers, grid.to(image.dtype), align_corners=True)[0]
    return torch.where(weight > 0.999, turned, math.nan)


def gridness(correlogram: Tensor, inner: float, outer: float) -> float:
    """The gridness score of an autocorrelogram (m, m), m odd.

    Args:
        correlogram: may hold NaN.
        inner, outer: radii, in lattice units, of the ring around the centre that is looked at.

    Returns:
        A plain float; NaN if the correlation of any of the rotations is not defined.
    """
    # <paper2code name="gridness score">
    size = len(correlogram)
    offset = torch.arange(size, dtype=correlogram.dtype) - size // 2
    radius = torch.hypot(offset[:, None], offset[None, :])
    ring = (radius >= inner) & (radius <= outer)
    scores = {}
    for degrees in (30, 60, 90, 120, 150):
        turned = rotate(correlogram, degrees)
        valid = ring & ~correlogram.isnan() & ~turned.isnan()
        a, b = correlogram[valid], turned[valid]
        a, b = a - a.mean(), b - b.mean()
        scores[degrees] = float((a * b).sum() / (a.norm() * b.norm()))
    if any(math.isnan(score) for score in scores.values()):
        return math.nan
    return min(scores[60], scores[120]) - max(scores[30], scores[90], scores[150])
    # </paper2code name="gridness score">
