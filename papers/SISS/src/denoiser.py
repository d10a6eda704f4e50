"""A tiny noise-predicting network on CPU: (noisy images, timesteps) -> predicted noise."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TinyDenoiser(nn.Module):
    """Two convolutions with a shift per channel that depends on the timestep.

    Args:
        channels: C of the images.
        steps: T, the number of timesteps.
        width: hidden channels.
    """

    def __init__(self, channels: int = 2, steps: int = 16, width: int = 4) -> None:
        super().__init__()
        self.inner = nn.Conv2d(channels, width, 3, padding=1)
        self.outer = nn.Conv2d(width, channels, 3, padding=1)
        self.time = nn.Embedding(steps, width)

    def forward(self, noisy: Tensor, timesteps: Tensor) -> Tensor:
        """Noisy images (B, C, H, W) and timesteps (B,) to noise (B, C, H, W)."""
        hidden = torch.tanh(self.inner(noisy) + self.time(timesteps)[:, :, None, None])
        return self.outer(hidden)
