"""Where attention goes, how large activations become, and what coarse numbers do to them."""

from __future__ import annotations

import torch
from torch import Tensor


def allocation(maps: Tensor, spans: Tensor) -> tuple[Tensor, Tensor]:
    """How much attention the last query pays to a span and to the rest.

    Args:
        maps: (B, h, T, S), attention maps of any sign.
        spans: (B, 2), int64: first token of the span, and the one after its last.

    Returns:
        Signal and noise, scalars.
    """
    # <paper2code name="attention to the answer and to noise">
    weights = maps[:, :, -1].abs()  # (B, h, S)
    index = torch.arange(maps.shape[-1])
    inside = (index >= spans[:, :1]) & (index < spans[:, 1:])  # (B, S)
    total = weights.sum(dim=2)
    within = (weights * inside[:, None]).sum(dim=2)
    signal = (within / total).nan_to_num().mean()
    noise = ((total - within) / total).nan_to_num().mean()
    return signal, noise
    # </paper2code name="attention to the answer and to noise">


def outliers(activations: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest magnitudes (count,), falling, and the median magnitude (scalar) of a tensor of any shape.

    Raises:
        ValueError: ``count`` is not between 1 and the number of activations.
    """
    sizes = activations.abs().flatten().sort(descending=True).values
    if not 1 <= count <= len(sizes):
        raise ValueError(f"there are no {count} largest of {len(sizes)} activations")
    middle = sizes[(len(sizes) - 1) // 2] + sizes[len(sizes) // 2]
    return sizes[:count], middle / 2


def quantize(logits: Tensor, bits: int) -> Tensor:
    """Round attention logits (..., S) to few bits, with one scale per row.

    Returns:
        Like ``logits``; what is minus infinity stays so.

    Raises:
        ValueError: ``bits`` is less than 2.
    """
    # <paper2code name="quantized logits">
    if bits < 2:
        raise ValueError(f"{bits} bits are too few")
    seen = logits.isfinite()
    levels = 2 ** (bits - 1) - 1
    largest = logits.abs().masked_fill(~seen, 0.0).amax(dim=-1, keepdim=True)
    step = largest / levels
    return torch.where(seen & (largest > 0), (logits / step).round() * step, logits)
    # </paper2code name="quantized logits">
