"""Two tiny language models on CPU. A model maps tokens (B, T) to next-token logits (B, T, V)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class BigramModel(nn.Module):
    """Row ``i`` of ``table`` (V, V) holds the logits of what follows token ``i``."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table)

    @classmethod
    def from_counts(
        cls, sequences: Sequence[Sequence[int]], vocabulary: int, smoothing: float = 0.01
    ) -> BigramModel:
        """Count pairs of neighbours, with ``smoothing`` added to each count."""
        counts = torch.full((vocabulary, vocabulary), smoothing)
        for sequence in sequences:
            for left, right in zip(sequence, sequence[1:]):
                counts[left, right] += 1
        return cls((counts / counts.sum(dim=1, keepdim=True)).log())

    def forward(self, tokens: Tensor) -> Tensor:
        return self.table[tokens]


class WindowModel(nn.Module):
    """A two-layer network that looks at the last ``window`` tokens; zeros come before the first."""

    def __init__(self, vocabulary: int, width: int = 16, window: int = 3) -> None:
        super().__init__()
        self.window = window
        self.embedding = nn.Embedding(vocabulary, width)
        self.hidden = nn.Linear(window * width, 2 * width)
        self.head = nn.Linear(2 * width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)  # (B, T, width)
        length = x.shape[1]
        x = nn.functional.pad(x, (0, 0, self.window - 1, 0))
        views = [x[:, shift : shift + length] for shift in range(self.window)]
        return self.head(torch.tanh(self.hidden(torch.cat(views, dim=-1))))
