"""Transformer parts that encoder and decoder share."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, L, W) to (B, L, W); ``mask`` (L, L) is true where a row may look at a column."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A pre-norm transformer block, modulated by a condition if there is one."""

    def __init__(self, width: int, heads: int, conditional: bool = False) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.modulation = nn.Linear(width, 6 * width) if conditional else None

    def forward(
        self, x: Tensor, mask: Tensor | None = None, condition: Tensor | None = None
    ) -> Tensor:
        """(B, L, W) to (B, L, W); ``condition`` (B, W) is needed by a conditional block."""
        if self.modulation is None:
            x = x + self.attention(self.norm1(x), mask)
            return x + self.mlp(self.norm2(x))
        parts = self.modulation(F.silu(condition)).unsqueeze(1).chunk(6, dim=-1)
        shift1, scale1, gate1, shift2, scale2, gate2 = parts
        x = x + gate1 * self.attention(self.norm1(x) * (1 + scale1) + shift1, mask)
        return x + gate2 * self.mlp(self.norm2(x) * (1 + scale2) + shift2)


def time_features(times: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """Sines and cosines (B, width) of integer times (B,)."""
    rates = torch.exp(-math.log(1e4) * torch.arange(width // 2, dtype=dtype) / (width // 2))
    phases = times.to(dtype)[:, None] * rates
    return torch.cat([phases.sin(), phases.cos()], dim=-1)
