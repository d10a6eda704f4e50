"""What a position embedding has to fulfil: conformal isometry and a motion model that fits it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Motion = Callable[[Tensor, Tensor], Tensor]
Embedding = Callable[[Tensor], Tensor]


def conformal_loss(
    before: Tensor, after: Tensor, displacement: Tensor, scale: Tensor, reach: float
) -> Tensor:
    """How far distances of codes are from being proportional to distances of places (L1).

    Args:
        before, after: (B, d): codes at x and at x + dx; d is a multiple of K.
        displacement: (B, 2): dx.
        scale: (K,): the scaling factor s of each module.
        reach: displacements that are longer do not count; one of exactly this length does.

    Returns:
        A scalar with finite gradients, 0 if no displacement counts.

    Raises:
        ValueError: d is not a multiple of K.
    """
    # <paper2code name="conformal isometry loss">
    modules = len(scale)
    batch, dim = before.shape
    if dim % modules:
        raise ValueError(f"{dim} cells cannot be shared by {modules} modules")
    length = torch.linalg.vector_norm(displacement, dim=1)  # (B,)
    # <paper2code name="distance moved in each module">
    change = (after - before).reshape(batch, modules, dim // modules)
    moved = torch.linalg.vector_norm(change, dim=2)  # (B, K)
    # </paper2code name="distance moved in each module">
    errors = (moved - length[:, None] * scale).square().sum(dim=1)  # (B,)
    near = length <= reach
    return torch.where(near, errors, 0.0).sum() / near.sum().clamp(min=1)
    # </paper2code name="conformal isometry loss">


def transformation_loss(embedding: Embedding, motion: Motion, path: Tensor) -> Tensor:
    """How far a code carried along a path by the motion model is from the embedding (L2).

    Args:
        embedding: places (B, 2) to codes (B, d).
        motion: codes (B, d) and displacements (B, 2) to codes (B, d).
        path: (B, T + 1, 2): places that follow each other, T >= 1.
    """
    # <paper2code name="multi-step transformation loss">
    carried = embedding(path[:, 0])
    steps = path.diff(dim=1)  # (B, T, 2)
    total = 0.0
    for t, step in enumerate(steps.unbind(dim=1), start=1):
        carried = motion(carried, step)
        total = total + (carried - embedding(path[:, t])).square().sum(dim=1).mean()
    return total / t
    # </paper2code name="multi-step transformation loss">
