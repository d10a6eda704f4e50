"""A small pre-norm Transformer, causal or not."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    """Attention and an MLP, each on a residual branch."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.shrink = nn.Linear(4 * width, width)

    def forward(self, x: Tensor, causal: bool) -> Tensor:
        """(B, T, D) to (B, T, D)."""
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        x = x + self.out(mixed.permute(0, 2, 1, 3).reshape(batch, length, width))
        return x + self.shrink(F.gelu(self.expand(self.norm2(x))))


class Transformer(nn.Module):
    """Blocks and a last norm. With ``causal``, token i sees tokens 0 to i only."""

    def __init__(self, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, causal: bool) -> Tensor:
        """(B, T, D) to (B, T, D)."""
        for block in self.blocks:
            x = block(x, causal)
        return self.norm(x)
