"""Probabilistic guidance: reweight the conditional mixture instead of extrapolating its mean."""

from __future__ import annotations

from torch import Tensor

from mixture import GaussianMixture, average_variance, mixture_mean, times_gaussian
from schedule import per_sample

EPSILON = 1e-6
PIXELS = (1, 2, 3)


def probabilistic_guidance(
    conditional: GaussianMixture,
    unconditional: GaussianMixture,
    scale: float,
    orthogonality: float = 0.0,
) -> GaussianMixture:
    """The conditional mixture under a Gaussian mask that prefers what the condition adds.

    Args:
        conditional, unconditional: velocity mixtures of the same shapes.
        scale: strength of the guidance; 0 changes nothing.
        orthogonality: how much of the part along the conditional mean the direction loses.

    Raises:
        ValueError: ``scale`` is not in [0, 1), or ``orthogonality`` is not in [0, 1].
    """
    # <paper2code name="probabilistic guidance">
    if not 0 <= scale < 1:
        raise ValueError(f"scale must be in [0, 1), not {scale}")
    if not 0 <= orthogonality <= 1:
        raise ValueError(f"orthogonality must be in [0, 1], not {orthogonality}")
    mean = mixture_mean(conditional)  # (B, C, H, W)
    # <paper2code name="guidance direction">
    direction = mean - mixture_mean(unconditional)
    overlap = (direction * mean).sum(dim=PIXELS, keepdim=True)
    along = overlap / mean.square().sum(dim=PIXELS, keepdim=True).clamp(min=EPSILON)
    direction = direction - orthogonality * along * mean
    size = direction.square().mean(dim=PIXELS, keepdim=True).sqrt()
    direction = direction / size.clamp(min=EPSILON)
    # </paper2code name="guidance direction">
    wide = per_sample(average_variance(conditional), 4)  # (B, 1, 1, 1)
    narrow = (1 - scale**2) * wide
    target = mean + scale * wide.sqrt() * direction
    return times_gaussian(
        conditional,
        precision=(1 / narrow - 1 / wide).flatten(),
        linear=target / narrow - mean / wide,
    )
    # </paper2code name="probabilistic guidance">


def guided_mean(conditional: Tensor, unconditional: Tensor, weight: float) -> Tensor:
    """Classifier-free guidance, for comparison: extrapolate the mean velocity."""
    return unconditional + weight * (conditional - unconditional)
