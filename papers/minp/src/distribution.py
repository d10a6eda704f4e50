"""From logits to a next-token distribution, and from a distribution to a token."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from truncation import (
    epsilon_filter,
    eta_filter,
    min_p_filter,
    top_k_filter,
    top_p_filter,
    typical_filter,
)


@dataclass(frozen=True)
class SamplerSettings:
    """How to sample. A truncation that is None is switched off.

    Attributes:
        temperature: 0 means greedy decoding.
        min_tokens_to_keep: every truncation keeps at least so many tokens.
        temperature_last: truncate the model's own distribution, and only then apply temperature.
    """

    temperature: float = 1.0
    top_k: int | None = None
    typical_p: float | None = None
    top_p: float | None = None
    min_p: float | None = None
    epsilon: float | None = None
    eta: float | None = None
    min_tokens_to_keep: int = 1
    temperature_last: bool = False


def next_token_distribution(logits: Tensor, settings: SamplerSettings) -> Tensor:
    """The probabilities that the next token is drawn with.

    Args:
        logits: (..., V).
        settings: temperature and truncations.

    Returns:
        (..., V), in the dtype of ``logits``.

    Raises:
        ValueError: the temperature is negative or not finite, or a truncation refuses its value.
    """
    # <paper2code name="next-token distribution">
    if not 0.0 <= settings.temperature < math.inf:
        raise ValueError(f"temperature must be finite and >= 0, not {settings.temperature}")
    # <paper2code name="greedy limit">
    if settings.temperature == 0.0:
        best = logits.argmax(dim=-1)
        return F.one_hot(best, logits.shape[-1]).to(logits.dtype)
    # </paper2code name="greedy limit">
    truncations = [
        (top_k_filter, settings.top_k),
        (typical_filter, settings.typical_p),
        (top_p_filter, settings.top_p),
        (min_p_filter, settings.min_p),
        (epsilon_filter, settings.epsilon),
        (eta_filter, settings.eta),
    ]
    # <paper2code name="order of temperature and truncation">
    if not settings.temperature_last:
        logits = logits / settings.temperature
    for truncate, value in truncations:
        if value is not None:
            logits = truncate(logits, value, settings.min_tokens_to_keep)
    if settings.temperature_last:
        logits = logits / settings.temperature
    # </paper2code name="order of temperature and truncation">
    return logits.softmax(dim=-1)
    # </paper2code name="next-token distribution">


def draw(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Draw one token per distribution with given uniform numbers.

    Args:
        weights: (..., V), proportional to the probabilities; they need not sum to 1.
        uniforms: (...), one number in [0, 1) per distribution.

    Returns:
        (...), int64 token indices.

    Raises:
        ValueError: the shapes do not fit, a uniform number is outside of [0, 1), a weight is
            negative, or the weights of a distribution do not have a positive sum.
    """
    # <paper2code name="draw by inverse CDF">
    if uniforms.shape != weights.shape[:-1]:
        raise ValueError(f"{tuple(uniforms.shape)} numbers for {tuple(weights.shape)} weights")
    if not ((uniforms >= 0) & (uniforms < 1)).all():
        raise ValueError("uniform numbers must be in [0, 1)")
    cdf = weights.double().cumsum(dim=-1)
    total = cdf[..., -1:]
    if (weights < 0).any() or not (total > 0).all():
        raise ValueError("weights must be non-negative with a positive sum")
    target = uniforms.double().unsqueeze(-1) * total
    return (cdf <= target).sum(dim=-1)
    # </paper2code name="draw by inverse CDF">
