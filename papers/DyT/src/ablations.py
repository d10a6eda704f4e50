"""The layer with its parts exchanged: other squashing functions, and no learnable alpha."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dynamic_tanh import DEFAULT_ALPHA


def squash(x: Tensor, kind: str) -> Tensor:
    """Apply the squashing function called ``kind`` to every element.

    Raises:
        ValueError: no squashing function has that name.
    """
    # <paper2code name="squashing functions">
    if kind == "identity":
        return x
    if kind == "tanh":
        return x.tanh()
    if kind == "hardtanh":
        return x.clamp(-1.0, 1.0)
    if kind == "sigmoid":
        return x.sigmoid()
    raise ValueError(f"unknown squashing function {kind!r}")
    # </paper2code name="squashing functions">


class ElementwiseLayer(nn.Module):
    """A squashing function between an input scale and a per-channel affine map, channels last."""

    def __init__(
        self,
        channels: int,
        kind: str = "tanh",
        alpha_init: float = DEFAULT_ALPHA,
        learn_alpha: bool = True,
    ) -> None:
        super().__init__()
        self.kind = kind
        if learn_alpha:
            self.alpha = nn.Parameter(torch.tensor([float(alpha_init)]))
        else:
            self.register_buffer("alpha", torch.ones(1))
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., C) to (..., C)."""
        return torch.addcmul(self.beta, self.gamma, squash(x * self.alpha, self.kind))
