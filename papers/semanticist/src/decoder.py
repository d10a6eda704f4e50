"""The tokenizer's decoder: a diffusion transformer that is told the concept tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from layers import Block, time_features


class ConceptDecoder(nn.Module):
    """Predicts the noise in an image from the noised image, the time, and the concept tokens.

    Args:
        image: side length of the square images.
        patch: side length of a patch; divides ``image``.
        channels: C, of the images.
        width, heads, depth: of the transformer; the width is even.
        concepts: K.
        dim: d, the length of a token.
    """

    def __init__(
        self,
        image: int,
        patch: int,
        channels: int,
        width: int,
        heads: int,
        depth: int,
        concepts: int,
        dim: int,
    ) -> None:
        super().__init__()
        self.grid, self.patch, self.channels, self.width = image // patch, patch, channels, width
        self.patches = self.grid**2
        self.embed = nn.Conv2d(channels, width, patch, stride=patch)
        self.positions = nn.Parameter(0.02 * torch.randn(self.patches, width))
        self.concept_in = nn.Linear(dim, width)
        self.concept_positions = nn.Parameter(0.02 * torch.randn(concepts, width))
        self.null = nn.Parameter(torch.zeros(dim))
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(Block(width, heads, conditional=True) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, patch * patch * channels)

    def forward(self, noised: Tensor, times: Tensor, tokens: Tensor) -> Tensor:
        """Noised images (B, C, H, H), times (B,) and tokens (B, K, d) to noise (B, C, H, H)."""
        # <paper2code name="noise prediction from tokens">
        condition = self.time(time_features(times, self.width, noised.dtype))  # (B, W)
        patches = torch.einsum("bwij->bijw", self.embed(noised))
        patches = patches.reshape(len(noised), self.patches, -1) + self.positions  # (B, N, W)
        concepts = self.concept_in(tokens) + self.concept_positions
        x = torch.cat([patches, concepts], dim=1)  # (B, N + K, W)
        for block in self.blocks:
            x = block(x, condition=condition)
        x = self.out(self.norm(x[:, : self.patches]))  # (B, N, p p C)
        x = x.unflatten(2, (self.patch, self.patch, self.channels))
        x = x.unflatten(1, (self.grid, self.grid))  # (B, rows, columns, p, p, C)
        x = torch.einsum("bijpqc->bcipjq", x)
        return x.reshape(noised.shape)
        # </paper2code name="noise prediction from tokens">
