"""Masked diffusion of categorical columns."""

from __future__ import annotations

import torch
from torch import Tensor

from table import CATEGORIES, Sizes, masks_of, split_columns


def mask_columns(cat: Tensor, keep: Tensor, uniforms: Tensor, sizes: Sizes) -> Tensor:
    """Mask the entries of (B, M) whose number is not below the probability ``keep``; NaN keeps nothing."""
    return torch.where(uniforms < keep, cat, masks_of(cat, sizes))


def draw_categories(logits: Tensor, uniforms: Tensor, sizes: Sizes) -> Tensor:
    """Draw every column from its own distribution.

    Args:
        logits: (B, sum of sizes).
        uniforms: (B, M), in [0, 1].

    Returns:
        (B, M), int64, without masks.
    """
    # <paper2code name="draw of categories">
    drawn = []
    for j, column in enumerate(split_columns(logits, sizes)):
        cdf = torch.cumsum(column.softmax(dim=CATEGORIES), dim=CATEGORIES)  # (B, sizes[j])
        passed = cdf <= uniforms[:, j, None]
        drawn.append(passed.sum(dim=CATEGORIES).clamp(max=sizes[j] - 1))
    return torch.stack(drawn, dim=CATEGORIES)
    # </paper2code name="draw of categories">


def unmask(
    cat: Tensor,
    logits: Tensor,
    alpha_t: Tensor,
    alpha_s: Tensor,
    stay_uniforms: Tensor,
    uniforms: Tensor,
    sizes: Sizes,
) -> Tensor:
    """The reverse step of categorical columns from time t to an earlier time s.

    Args:
        cat: (B, M), at time t.
        logits: (B, sum of sizes).
        alpha_t, alpha_s: probabilities of not being masked; they broadcast to (B, M).
        stay_uniforms: (B, M): which masks stay.
        uniforms: (B, M): what the others turn into.
    """
    # <paper2code name="reverse step of categorical columns">
    stay = (1 - alpha_s) / (1 - alpha_t)
    masked = cat == masks_of(cat, sizes)
    revealed = masked & (stay_uniforms >= stay)
    return torch.where(revealed, draw_categories(logits, uniforms, sizes), cat)
    # </paper2code name="reverse step of categorical columns">
