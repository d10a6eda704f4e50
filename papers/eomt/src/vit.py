"""A plain Vision Transformer, whose attention can be told which tokens may look at which."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Multi-head self-attention. ``qkv`` holds queries, keys and values, in this order."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Mix tokens.

        Args:
            x: (B, T, D).
            allowed: (B, T, T), bool: whether token i (second dimension) may look at token j (third);
                None: all may look at all.
        """
        # <paper2code name="attention among allowed pairs">
        batch, length, width = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (B, heads, T, d) each
        scores = q @ k.mT / math.sqrt(width // self.heads)  # (B, heads, T, T)
        if allowed is not None:
            scores = scores.masked_fill(~allowed[:, None], -math.inf)
        mixed = torch.einsum("bhij,bhjd->bihd", scores.softmax(dim=-1), v)
        return self.out(mixed.reshape(batch, length, width))
        # </paper2code name="attention among allowed pairs">


class Block(nn.Module):
    """A pre-norm Transformer block with a learned scale on each residual branch."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.scale1 = nn.Parameter(torch.full((width,), 1e-5))
        self.norm2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.shrink = nn.Linear(4 * width, width)
        self.scale2 = nn.Parameter(torch.full((width,), 1e-5))

    def forward(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        """(B, T, D) to (B, T, D); ``allowed`` as in `Attention`."""
        x = x + self.scale1 * self.attention(self.norm1(x), allowed)
        return x + self.scale2 * self.shrink(F.gelu(self.expand(self.norm2(x))))


class Encoder(nn.Module):
    """The parts of a ViT; the model decides how they are put together.

    Attributes:
        grid: rows and columns of patches.
        num_prefix: how many tokens (class token and registers) stand before the patches.
        norm: the layer norm behind the last block.
    """

    def __init__(
        self,
        image_size: tuple[int, int],
        patch: int,
        width: int,
        depth: int,
        heads: int,
        registers: int = 0,
    ) -> None:
        super().__init__()
        self.grid = (image_size[0] // patch, image_size[1] // patch)
        self.num_prefix = 1 + registers
        self.patch_embed = nn.Conv2d(3, width, kernel_size=patch, stride=patch)
        self.position = nn.Parameter(0.02 * torch.randn(1, self.grid[0] * self.grid[1], width))
        self.prefix = nn.Parameter(0.02 * torch.randn(1, self.num_prefix, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def embed(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) to (B, prefix + N, D): prefix tokens, then the N patches row by row."""
        patches = self.patch_embed(images).flatten(2).mT + self.position
        return torch.cat([self.prefix.expand(len(images), -1, -1), patches], dim=1)
