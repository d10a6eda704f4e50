"""Small parts of the differential transformer."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def initial_lambda(layer: int) -> float:
    """The constant that a layer's lambda starts from.

    Args:
        layer: 1 for the first layer.

    Raises:
        ValueError: ``layer`` is less than 1.
    """
    # <paper2code name="initial lambda of a layer">
    if layer < 1:
        raise ValueError(f"layers are counted from 1, not {layer}")
    return 0.8 - 0.6 * math.exp(-0.3 * (layer - 1))
    # </paper2code name="initial lambda of a layer">


def rotate(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    """Rotary position embedding.

    Args:
        x: (B, T, heads, d).
        positions: (T,), int64.

    Returns:
        Like ``x``.

    Raises:
        ValueError: d is odd.
    """
    # <paper2code name="rotary positions">
    width = x.shape[-1]
    if width % 2:
        raise ValueError(f"an odd width of {width} cannot be rotated")
    powers = torch.arange(width // 2, dtype=x.dtype) / (width // 2)
    angles = positions[:, None, None] * base**-powers  # (T, 1, d / 2)
    a, b = x.chunk(2, dim=-1)
    return torch.cat(
        [a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], dim=-1
    )
    # </paper2code name="rotary positions">


def head_norm(heads: Tensor, gain: Tensor, eps: float = 1e-5) -> Tensor:
    """Normalize each head of (B, T, h, c) on its own; ``gain`` (c,) is common to all."""
    # <paper2code name="normalization of each head">
    return heads * torch.rsqrt(heads.square().mean(dim=-1, keepdim=True) + eps) * gain
    # </paper2code name="normalization of each head">


class SwiGLU(nn.Module):
    """A gated two-layer network without biases."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) to (..., D)."""
        gate = self.gate(x)
        return self.down(gate * gate.sigmoid() * self.up(x))
