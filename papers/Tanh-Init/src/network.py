"""Fully connected networks with tanh."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class TanhNetwork(nn.Module):
    """Linear layers with tanh after each of them but the last.

    Attributes:
        layers: the linear layers, in the order of the forward pass.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        pairs = zip(widths[:-1], widths[1:], strict=True)
        self.layers = nn.ModuleList(nn.Linear(n_in, n_out) for n_in, n_out in pairs)

    def forward(self, x: Tensor) -> Tensor:
        """(B, widths[0]) to (B, widths[-1])."""
        *hidden, last = self.layers
        for layer in hidden:
            x = torch.tanh(layer(x))
        return last(x)
