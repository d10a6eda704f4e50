"""What a latent code tells about the task: a linear classifier, fitted in closed form."""

from __future__ import annotations

import torch
from torch import Tensor


def probe_scores(
    codes: Tensor, labels: Tensor, new_codes: Tensor, ridge: float = 1e-2
) -> Tensor:
    """Fit a ridge classifier on some codes and apply it to others.

    Args:
        codes: (N, P).
        labels: (N,), int64, not negative.
        new_codes: (M, P).
        ridge: strength of the penalty.

    Returns:
        (M, 1 + largest label): a score for each label, in the dtype of the codes.
    """
    center = codes.mean(dim=0)
    spread = codes.std(dim=0, correction=0) + 1e-6
    x = (codes - center) / spread
    targets = torch.nn.functional.one_hot(labels).to(x.dtype)  # (N, classes)
    offset = targets.mean(dim=0)
    gram = x.T @ x / len(x) + ridge * x.new_ones(x.shape[1]).diag()
    weights = torch.linalg.solve(gram, x.T @ (targets - offset) / len(x))
    return (new_codes - center) / spread @ weights + offset


def share_found(scores: Tensor, labels: Tensor) -> float:
    """How often the label (M,) has the largest score."""
    return (scores.argmax(dim=1) == labels).double().mean().item()
