"""The surrogate loss of proximal advantage alignment."""

from __future__ import annotations

import torch
from torch import Tensor


def clipped_surrogate(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    epsilon: float,
) -> Tensor:
    """PPO's clipped objective, negated, as a mean over the entries in ``mask``.

    Args:
        log_probs: of the actions taken, under the policy that learns.
        old_log_probs: of the same shape, under the policy that acted.
        advantages: of the same shape.
        mask: of the same shape, bool; what the other entries hold is of no consequence.
        epsilon: how far the ratio of probabilities counts.

    Returns:
        A scalar; gradients flow to ``log_probs`` only.

    Raises:
        ValueError: ``epsilon`` is not strictly between 0 and 1.
    """
    # <paper2code name="clipped surrogate">
    if not 0.0 < epsilon < 1.0:
        raise ValueError(f"epsilon must be strictly between 0 and 1, not {epsilon}")
    ratio = (log_probs[mask] - old_log_probs[mask].detach()).exp()
    gain = advantages[mask].detach()
    near = ratio.clamp(1.0 - epsilon, 1.0 + epsilon)
    objective = torch.minimum(ratio * gain, near * gain)
    return -objective.sum() / mask.sum().clamp(min=1)
    # </paper2code name="clipped surrogate">
