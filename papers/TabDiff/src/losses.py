"""The two parts of the training objective."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from table import Prediction, Sizes, split_columns


def numerical_loss(predicted: Prediction, noise: Tensor) -> Tensor:
    """(B,): squared error of the predicted noise, summed over columns."""
    return (predicted.noise - noise).pow(2).sum(-1)


def categorical_loss(
    logits: Tensor, cat: Tensor, noisy: Tensor, t: Tensor, k: Tensor, sizes: Sizes
) -> Tensor:
    """The weighted negative log-likelihood of what is masked.

    Args:
        logits: (B, sum of sizes).
        cat: (B, M), the true categories.
        noisy: (B, M), the categories that the network saw.
        t: (B,), in (0, 1].
        k: (M,), the exponents of the schedule.

    Returns:
        (B,), summed over columns.
    """
    # <paper2code name="masked categorical loss">
    total = torch.zeros_like(t)
    for j, column in enumerate(split_columns(logits, sizes)):
        # <paper2code name="loss of one categorical column">
        surprise = F.cross_entropy(column, cat[:, j], reduction="none")
        hidden = noisy[:, j] == sizes[j]
        total = total + k[j] / t * torch.where(hidden, surprise, 0)
        # </paper2code name="loss of one categorical column">
    return total
    # </paper2code name="masked categorical loss">
