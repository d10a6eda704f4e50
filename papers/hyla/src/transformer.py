"""A small transformer that answers at its last token."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attention import HypernetworkAttention


class Block(nn.Module):
    """Attention and a two-layer network, each with a normalization before it and a bypass."""

    def __init__(self, width: int, heads: int, kind: str) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(width)
        self.attention = HypernetworkAttention(width, heads, kind)
        self.norm_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Tokens (B, T, D) to tokens and latent codes (B, H, T, T)."""
        mixed, codes = self.attention(self.norm_1(x), mask)
        x = x + mixed
        return x + self.mlp(self.norm_2(x)), codes


class Transformer(nn.Module):
    """Linear embedding, learned positions, causal blocks, and a linear readout of the last token."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        length: int,
        width: int = 32,
        heads: int = 4,
        depth: int = 2,
        kind: str = "hyla",
    ) -> None:
        super().__init__()
        self.embedding = nn.Linear(inputs, width)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.ModuleList(Block(width, heads, kind) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.readout = nn.Linear(width, outputs)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Answer sequences.

        Args:
            tokens: (B, T, inputs), with T at most ``length``.

        Returns:
            Outputs (B, outputs), and the latent codes of the last query (B, depth, T, H).
        """
        # <paper2code name="causal transformer with latent codes">
        steps = tokens.shape[1]
        mask = torch.ones(steps, steps, dtype=torch.bool).tril()
        x = self.embedding(tokens) + self.positions[:steps]
        collected = []
        for block in self.blocks:
            x, codes = block(x, mask)
            collected.append(codes[:, :, -1].transpose(1, 2))  # (B, T, H)
        return self.readout(self.norm(x[:, -1])), torch.stack(collected, dim=1)
        # </paper2code name="causal transformer with latent codes">


def raven_loss(outputs: Tensor, solutions: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy and accuracy of answers to puzzles.

    Args:
        outputs: (B, M * F).
        solutions: (B, M), int64.

    Returns:
        The mean loss over all features (scalar), and the share of puzzles in which all features are right (scalar).
    """
    logits = outputs.reshape(*solutions.shape, -1)  # (B, M, F)
    loss = F.cross_entropy(logits.flatten(0, 1), solutions.flatten())
    right = (logits.argmax(dim=2) == solutions).all(dim=1)
    return loss, right.to(outputs.dtype).mean()
