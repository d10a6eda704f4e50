"""Which query is responsible for which object."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from assignment import assign
from points import sample_points

CLASS_WEIGHT = 2.0
CROSS_ENTROPY_WEIGHT = 5.0
DICE_WEIGHT = 5.0


def mask_costs(logits: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
    """How badly each of K predicted masks fits each of M true ones, at P points.

    Args:
        logits: (..., K, P): mask logits.
        masks: (..., M, P): values from 0 to 1, in the dtype of the logits.

    Returns:
        (..., K, M) each: binary cross-entropy (mean over points), and dice loss.
    """
    misses = F.softplus(-logits) @ masks.mT
    false_alarms = F.softplus(logits) @ (1 - masks).mT
    cross_entropy = (misses + false_alarms) / logits.shape[-1]
    # <paper2code name="pairwise dice">
    probs = logits.sigmoid()
    sizes = probs.sum(dim=-1)[..., :, None] + masks.sum(dim=-1)[..., None, :]
    dice = 1 - (2 * probs @ masks.mT + 1) / (sizes + 1)
    # </paper2code name="pairwise dice">
    return cross_entropy, dice


@torch.no_grad()
def match(
    class_logits: Tensor,
    mask_logits: Tensor,
    labels: Tensor,
    masks: Tensor,
    num_points: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Match the queries of one image with its M targets.

    Args:
        class_logits: (K, C + 1).
        mask_logits: (K, h, w).
        labels: (M,), int64.
        masks: (M, H, W), bool.
        num_points: at how many random points masks are compared.
        generator: makes one draw, also if M is 0: the points.

    Returns:
        The matched queries, rising, and the target of each of them: min(K, M) each, int64.
    """
    # <paper2code name="bipartite matching of queries and targets">
    points = torch.rand(1, num_points, 2, generator=generator, dtype=mask_logits.dtype)
    predicted = sample_points(mask_logits[None], points)[0]  # (K, P)
    wanted = sample_points(masks[None].to(mask_logits.dtype), points)[0]  # (M, P)
    cross_entropy, dice = mask_costs(predicted, wanted)
    cost = (
        CROSS_ENTROPY_WEIGHT * cross_entropy
        + DICE_WEIGHT * dice
        - CLASS_WEIGHT * class_logits.softmax(dim=-1)[:, labels]
    )
    queries, targets = assign(cost.double().numpy())
    return torch.from_numpy(queries), torch.from_numpy(targets)
    # </paper2code name="bipartite matching of queries and targets">
