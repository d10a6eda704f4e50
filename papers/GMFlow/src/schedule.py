"""The linear path between data (t = 0) and noise (t = 1): x_t = alpha_t x_0 + sigma_t eps."""

from __future__ import annotations

from torch import Tensor


def alpha(t: Tensor) -> Tensor:
    """How much of the data is left at time t."""
    return 1 - t


def sigma(t: Tensor) -> Tensor:
    """Standard deviation of the noise at time t."""
    return t


def per_sample(values: Tensor, ndim: int) -> Tensor:
    """Reshape (B,) to (B, 1, ..., 1) with ``ndim`` dimensions."""
    return values.reshape(-1, *[1] * (ndim - 1))


def forward_variance(t: Tensor, s: Tensor) -> Tensor:
    """The variance beta that the noise adds on the way from time s to time t >= s."""
    return sigma(t) ** 2 - (alpha(t) / alpha(s)) ** 2 * sigma(s) ** 2


def transition_coefficients(t: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(c1, c2, c3) of the reverse step from time t to time s, where x_0 is known.

    The step is a Gaussian around c1 x_t + c2 x_0 with variance c3.

    Args:
        t: (B,), the time one comes from.
        s: (B,), the time one goes to.

    Raises:
        ValueError: any pair of times breaks 0 <= s <= t <= 1, or has t = 0, or s = 1.
    """
    # <paper2code name="coefficients of the reverse step">
    valid = (s >= 0) & (s <= t) & (t <= 1) & (t > 0) & (s < 1)
    if not valid.all():
        raise ValueError(f"no reverse step from {t.tolist()} to {s.tolist()}")
    share = forward_variance(t, s) / sigma(t) ** 2
    c1 = (sigma(s) / sigma(t)) ** 2 * alpha(t) / alpha(s)
    return c1, share * alpha(s), share * sigma(s) ** 2
    # </paper2code name="coefficients of the reverse step">
