"""A tiny noise-predicting network on CPU: (noisy images, timesteps, prompts) -> predicted noise."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TinyDenoiser(nn.Module):
    """Two convolutions with a shift per channel that depends on timestep and prompt.

    Args:
        channels: C of the images.
        prompts: how many prompts there are; prompt 0 is the empty one.
        steps: T, the number of timesteps.
        width: hidden channels.
    """

    def __init__(self, channels: int = 2, prompts: int = 5, steps: int = 20, width: int = 6) -> None:
        super().__init__()
        self.inner = nn.Conv2d(channels, width, 3, padding=1)
        self.outer = nn.Conv2d(width, channels, 3, padding=1)
        self.time = nn.Embedding(steps, width)
        self.prompt = nn.Embedding(prompts, width)

    def forward(self, noisy: Tensor, timesteps: Tensor, prompts: Tensor) -> Tensor:
        """Noisy images (B, C, H, W), timesteps (B,), prompts (B,), to noise (B, C, H, W)."""
        shift = self.time(timesteps) + self.prompt(prompts)  # (B, width)
        hidden = torch.tanh(self.inner(noisy) + shift[:, :, None, None])
        return self.outer(hidden)
