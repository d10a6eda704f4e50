"""Dynamic Tanh (DyT), the element-wise layer that stands in for a normalization layer.

Notation: ``C`` channels, ``alpha`` the learnable scalar, ``weight`` and ``bias`` the per-channel
gamma and beta. Nothing in this layer looks at more than one element of its input at a time.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

DEFAULT_ALPHA = 0.5


class DynamicTanh(nn.Module):
    """DyT over one channel dimension.

    Args:
        channels: number of channels ``C``.
        alpha_init: initial value of the scalar alpha.
        channels_last: True for inputs (..., C), False for inputs (N, C, *spatial).
    """

    def __init__(
        self, channels: int, alpha_init: float = DEFAULT_ALPHA, channels_last: bool = True
    ) -> None:
        super().__init__()
        self.channels = channels
        self.alpha_init = alpha_init
        self.channels_last = channels_last
        # <paper2code name="parameters and their initial values">
        self.alpha = nn.Parameter(torch.full((1,), float(alpha_init)))
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        # </paper2code name="parameters and their initial values">

    def forward(self, x: Tensor) -> Tensor:
        """Apply DyT to ``x``; the output has the shape of ``x``.

        Raises:
            ValueError: the channel dimension of ``x`` does not hold ``channels`` channels.
        """
        # <paper2code name="forward">
        found = x.shape[-1 if self.channels_last else 1]
        if found != self.channels:
            raise ValueError(f"expected {self.channels} channels, got {found}")
        weight, bias = self.weight, self.bias
        # <paper2code name="affine parameters for channels first">
        if not self.channels_last:
            spatial = (1,) * (x.dim() - 2)
            weight = weight.view(-1, *spatial)  # (C, 1, ..., 1)
            bias = bias.view(-1, *spatial)
        # </paper2code name="affine parameters for channels first">
        return torch.tanh(self.alpha * x) * weight + bias
        # </paper2code name="forward">

    def extra_repr(self) -> str:
        """What print(layer) shows."""
        return f"{self.channels}, alpha_init={self.alpha_init}, channels_last={self.channels_last}"
