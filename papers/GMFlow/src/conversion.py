"""From the mixture of velocities that a network predicts to mixtures of other variables."""

from __future__ import annotations

from torch import Tensor

from mixture import GaussianMixture, times_gaussian
from schedule import alpha, per_sample, sigma, transition_coefficients


def velocity_to_data(velocity: GaussianMixture, x_t: Tensor, t: Tensor) -> GaussianMixture:
    """q(u | x_t) to q(x_0 | x_t), by x_0 = x_t - sigma_t u. x_t: (B, C, H, W); t: (B,)."""
    scale = per_sample(sigma(t), 5)
    return GaussianMixture(
        x_t.unsqueeze(1) - scale * velocity.means,
        velocity.logweights,
        velocity.logstd + scale.log(),
    )


def reverse_transition(
    data: GaussianMixture, x_t: Tensor, t: Tensor, s: Tensor
) -> GaussianMixture:
    """q(x_0 | x_t) to q(x_s | x_t), for an earlier time s.

    Args:
        data: the denoising distribution at (x_t, t).
        x_t: (B, C, H, W).
        t: (B,).
        s: (B,), with 0 <= s <= t.
    """
    # <paper2code name="reverse transition distribution">
    c1, c2, c3 = (per_sample(c, 5) for c in transition_coefficients(t, s))
    means = c1 * x_t.unsqueeze(1) + c2 * data.means
    variance = c3 + c2**2 * data.variance
    return GaussianMixture(means, data.logweights, 0.5 * variance.log())
    # </paper2code name="reverse transition distribution">


def denoising_at(
    data: GaussianMixture, x_t: Tensor, t: Tensor, x_s: Tensor, s: Tensor
) -> GaussianMixture:
    """q(x_0 | x_t) to the denoising distribution at another point, without asking the network.

    Args:
        data: the denoising distribution at (x_t, t).
        x_t, x_s: (B, C, H, W).
        t, s: (B,), both above 0.
    """
    # <paper2code name="denoising distribution at another point">
    precision = (alpha(s) / sigma(s)) ** 2 - (alpha(t) / sigma(t)) ** 2
    pull_s = per_sample(alpha(s) / sigma(s) ** 2, 4) * x_s
    pull_t = per_sample(alpha(t) / sigma(t) ** 2, 4) * x_t
    return times_gaussian(data, precision, pull_s - pull_t)
    # </paper2code name="denoising distribution at another point">
