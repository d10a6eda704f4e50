"""Masks are compared at points rather than at all pixels; more of them where it is hard.

A point is (x, y): (0, 0) is the upper left corner of the upper left pixel, (1, 1) the lower right
corner of the lower right one.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def sample_points(maps: Tensor, points: Tensor) -> Tensor:
    """Read maps at points, bilinearly; outside of the map everything is 0.

    Args:
        maps: (N, C, H, W).
        points: (N, P, 2): from 0 to 1, in the dtype of the maps.

    Returns:
        (N, C, P).
    """
    grid = 2 * points[:, None] - 1  # (N, 1, P, 2)
    return F.grid_sample(maps, grid, "bilinear", "zeros", False)[:, :, 0]


def uncertain_points(
    logits: Tensor,
    num_points: int,
    generator: torch.Generator,
    oversampling: int = 3,
    importance: float = 0.75,
) -> Tensor:
    """Choose points, most of them where masks are uncertain.

    Args:
        logits: (M, 1, h, w): mask logits; M may be 0.
        num_points: P.
        generator: makes two draws: candidates, then the points that are not chosen by uncertainty.
        oversampling: candidates per point.
        importance: share of the points that are chosen from the candidates.

    Returns:
        (M, P, 2): the chosen ones, the most uncertain first, then the others.
    """
    # <paper2code name="points by uncertainty">
    count, dtype = len(logits), logits.dtype
    candidates = torch.rand(
        count, oversampling * num_points, 2, generator=generator, dtype=dtype
    )
    certainty = sample_points(logits, candidates)[:, 0].abs()  # (M, candidates)
    hard = int(importance * num_points)
    chosen = (-certainty).topk(hard).indices  # (M, hard)
    picked = candidates[torch.arange(count)[:, None], chosen]
    others = torch.rand(count, num_points - hard, 2, generator=generator, dtype=dtype)
    return torch.cat([picked, others], dim=1)
    # </paper2code name="points by uncertainty">
