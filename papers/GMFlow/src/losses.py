"""How well a predicted mixture explains a step of the forward process."""

from __future__ import annotations

from torch import Tensor

from conversion import reverse_transition, velocity_to_data
from mixture import GaussianMixture, log_density
from schedule import sigma, transition_coefficients


def transition_loss(
    velocity: GaussianMixture, x_t: Tensor, x_s: Tensor, t: Tensor, s: Tensor
) -> Tensor:
    """Negative log-likelihood of x_s given x_t, in the units of the velocity.

    Args:
        velocity: what the network predicts at (x_t, t).
        x_t, x_s: (B, C, H, W), one path at two times.
        t, s: (B,), with 0 <= s < t.

    Returns:
        (B,): per sample, on average over pixels and channels.
    """
    # <paper2code name="transition loss">
    channels = x_t.shape[1]
    data = velocity_to_data(velocity, x_t, t)
    likelihood = log_density(reverse_transition(data, x_t, t, s), x_s)  # (B, H, W)
    _, c2, _ = transition_coefficients(t, s)
    units = (c2 * sigma(t)).log()  # (B,)
    return -likelihood.mean(dim=(1, 2)) / channels - units
    # </paper2code name="transition loss">
