"""In which order a masked level makes its patches, and how tokens are drawn."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def masks_of_ratio(orders: Tensor, ratios: Tensor) -> Tensor:
    """Hide the patches that come last in a random order.

    Args:
        orders: (B, N), int64: each row is a permutation, first patch first.
        ratios: (B,): the share of the patches that is hidden, at least one patch.

    Returns:
        (B, N), bool: which patches are hidden.
    """
    # <paper2code name="mask by order and ratio">
    _, count = orders.shape
    hidden = (ratios * count).ceil().clamp(1, count)  # (B,)
    places = orders.argsort()  # place of each patch in the order
    return places >= (count - hidden)[:, None]
    # </paper2code name="mask by order and ratio">


def truncated_ratios(
    uniforms: Tensor, mean: float = 1.0, std: float = 0.25, low: float = 0.5, high: float = 1.0
) -> Tensor:
    """Ratios from a normal distribution, truncated to [low, high], by inversion of its CDF."""
    def cdf(x: float) -> float:
        return 0.5 * (1 + math.erf((x - mean) / (std * math.sqrt(2))))

    level = cdf(low) + uniforms * (cdf(high) - cdf(low))
    return (mean + std * torch.special.ndtri(level)).clamp(low, high)


def cosine_counts(count: int, steps: int) -> list[int]:
    """How many of ``count`` patches a masked level makes in each step.

    Returns:
        At most ``steps`` positive numbers with the sum ``count``.

    Raises:
        ValueError: there are no patches or no steps.
    """
    # <paper2code name="patches made in each step">
    if count < 1 or steps < 1:
        raise ValueError(f"{count} patches in {steps} steps")
    counts, left = [], count
    for step in range(steps):
        stay = math.floor(count * math.cos(math.pi / 2 * (step + 1) / steps) + 1e-9)
        made = min(max(left - stay, 1), left)
        if made:
            counts.append(made)
        left -= made
    return counts
    # </paper2code name="patches made in each step">


def draw(logits: Tensor, uniforms: Tensor, temperature: float, guidance: float) -> Tensor:
    """Draw values by inversion of their CDF.

    Args:
        logits: (G, ..., V): G = 1, or G = 2 with those of the condition first, those without second.
        uniforms: (...): numbers in [0, 1).
        temperature: above 0.
        guidance: 1 is no guidance; not used if G = 1.

    Returns:
        (...), int64.

    Raises:
        ValueError: the temperature is not above 0.
    """
    # <paper2code name="guided draw">
    if not temperature > 0:
        raise ValueError(f"temperature {temperature}")
    # <paper2code name="guided logits">
    mixed = logits[-1]
    if len(logits) == 2:
        mixed = mixed + guidance * (logits[0] - mixed)
    # </paper2code name="guided logits">
    cdf = (mixed / temperature).softmax(dim=-1).double().cumsum(dim=-1)
    bar = uniforms.double() * cdf[..., -1]
    return (cdf <= bar[..., None]).sum(dim=-1)
    # </paper2code name="guided draw">
