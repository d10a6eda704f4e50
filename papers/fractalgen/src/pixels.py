"""The generator of the last level: red, green and blue of one pixel, one after the other."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from order import draw
from transformer import Transformer


class PixelLevel(nn.Module):
    """A causal Transformer over three channels with V values each."""

    def __init__(self, outer: int, width: int, depth: int, heads: int, values: int) -> None:
        super().__init__()
        self.project = nn.Linear(outer, width)
        self.embeddings = nn.Parameter(0.02 * torch.randn(2, values, width))  # of red and green
        self.position = nn.Parameter(0.02 * torch.randn(7, width))
        self.transformer = Transformer(width, depth, heads)
        self.head = nn.Linear(width, values)

    def forward(self, pixels: Tensor, condition: Tensor) -> Tensor:
        """Logits of the channels of pixels.

        Args:
            pixels: (B, n), int64: the first n channels of each pixel, n from 0 to 2.
            condition: (B, 5, outer).

        Returns:
            (B, n + 1, V): logits of the channels 0 to n.
        """
        # <paper2code name="logits of channels">
        _, known = pixels.shape
        channels = torch.arange(known)
        tokens = torch.cat([self.project(condition), self.embeddings[channels, pixels]], dim=1)
        seen = self.transformer(tokens + self.position[: 5 + known], causal=True)
        return self.head(seen[:, 4:])
        # </paper2code name="logits of channels">

    def loss(self, pixels: Tensor, condition: Tensor) -> Tensor:
        """Negative log-likelihood of pixels (B, 3) in nats, mean over channels: (B,)."""
        logits = self(pixels[:, :2], condition)
        return F.cross_entropy(logits.mT, pixels, reduction="none").mean(dim=-1)

    def sample(
        self, condition: Tensor, uniforms: Tensor, temperature: float, guidance: float
    ) -> Tensor:
        """Draw pixels.

        Args:
            condition: (G, B, 5, outer), G as in `draw`.
            uniforms: (B, 3): numbers in [0, 1), one per channel.

        Returns:
            (B, 3), int64.
        """
        # <paper2code name="pixels one channel after the other">
        groups = len(condition)
        pixels = torch.empty(len(uniforms), 0, dtype=torch.long)
        for channel in range(3):
            logits = self(pixels.repeat(groups, 1), condition.flatten(0, 1))[:, -1]
            logits = logits.unflatten(0, (groups, -1))  # (G, B, V)
            value = draw(logits, uniforms[:, channel], temperature, guidance)
            pixels = torch.column_stack([pixels, value])
        return pixels
        # </paper2code name="pixels one channel after the other">
