"""Few-shot classification: an image is a set of local features, a class a set of its shots' features."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from similarity import directed_similarity


def local_features(maps: Tensor) -> Tensor:
    """(B, C, H, W) to (B, H * W, C): a feature map as a set, row by row, each item of length 1."""
    # <paper2code name="features as a set">
    return F.normalize(maps.flatten(2).mT, dim=-1)
    # </paper2code name="features as a set">


def episode_scores(
    support: Tensor,
    labels: Tensor,
    query: Tensor,
    ways: int,
    alphas: Sequence[float],
    betas: Sequence[float],
    delta: float = 0.0,
    temperature: float = 1.0,
) -> Tensor:
    """How similar each query image is to each class.

    Args:
        support: (S, C, H, W): feature maps of the labelled images.
        labels: (S,), int64, each from 0 to ways - 1.
        query: (Q, C, H, W).
        ways: number of classes.
        alphas, betas, delta: settings of the similarity.
        temperature: positive; scores are divided by it.

    Returns:
        (Q, ways).

    Raises:
        ValueError: ``temperature`` is not positive, ``ways`` is less than 1, or a class has no images.
    """
    # <paper2code name="scores of an episode">
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, not {temperature}")
    if ways < 1:
        raise ValueError(f"there must be at least one class, not {ways}")
    shots = local_features(support)  # (S, P, C)
    queries = local_features(query)  # (Q, P, C)
    scores = []
    for way in range(ways):
        # <paper2code name="set of a class">
        members = shots[labels == way]
        if len(members) == 0:
            raise ValueError(f"class {way} has no images")
        gathered = members.flatten(0, 1).expand(len(queries), -1, -1)  # (Q, shots * P, C)
        # </paper2code name="set of a class">
        directions = (queries, gathered), (gathered, queries)
        both = [directed_similarity(*pair, alphas, betas, delta) for pair in directions]
        scores.append(torch.stack(both).mean(dim=0))
    return torch.stack(scores, dim=-1) / temperature
    # </paper2code name="scores of an episode">


def episode_loss(scores: Tensor, targets: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """Cross-entropy of an episode with smoothed labels, and the share of right answers.

    Args:
        scores: (Q, ways).
        targets: (Q,), int64.
        smoothing: in [0, 1].

    Returns:
        Two tensors without dimensions.
    """
    # <paper2code name="loss of an episode">
    log_probs = scores.log_softmax(dim=1)
    right = log_probs[torch.arange(len(targets)), targets]
    likelihood = (1 - smoothing) * right.mean() + smoothing * log_probs.mean()
    hits = (scores.argmax(dim=1) == targets).to(scores.dtype)
    return -likelihood, hits.mean()
    # </paper2code name="loss of an episode">
