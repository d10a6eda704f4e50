"""A small class-conditional network with a head that predicts mixtures of velocities."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mixture import GaussianMixture


class MixtureHead(nn.Module):
    """Features to mixtures: means and weights for each pixel, one deviation for each sample."""

    def __init__(self, width: int, embedding: int, channels: int, components: int) -> None:
        super().__init__()
        self.channels, self.components = channels, components
        self.pixel = nn.Conv2d(width, components * (channels + 1), kernel_size=1)
        self.deviation = nn.Sequential(nn.Linear(embedding, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, features: Tensor, embedding: Tensor) -> GaussianMixture:
        """features: (B, width, H, W); embedding: (B, embedding)."""
        batch, _, height, width = features.shape
        out = self.pixel(features)
        out = out.reshape(batch, self.components, self.channels + 1, height, width)
        means, logits = out.split([self.channels, 1], dim=2)
        logstd = self.deviation(embedding).reshape(batch, 1, 1, 1, 1)
        return GaussianMixture(means, torch.log_softmax(logits, dim=1), logstd)


class VelocityNet(nn.Module):
    """Two convolutions, shifted by an embedding of time and class. The last class is "none"."""

    def __init__(
        self, channels: int = 2, components: int = 4, classes: int = 3, width: int = 16
    ) -> None:
        super().__init__()
        self.null_label = classes
        self.label = nn.Embedding(classes + 1, width)
        self.time = nn.Sequential(nn.Linear(2, width), nn.SiLU(), nn.Linear(width, width))
        self.first = nn.Conv2d(channels, width, kernel_size=3, padding=1)
        self.second = nn.Conv2d(width, width, kernel_size=3, padding=1)
        self.head = MixtureHead(width, width, channels, components)

    def forward(self, x: Tensor, t: Tensor, labels: Tensor) -> GaussianMixture:
        """x: (B, C, H, W); t: (B,); labels: (B,)."""
        embedding = self.time(torch.stack([t, t * t], dim=1)) + self.label(labels)
        hidden = nn.functional.silu(self.first(x) + embedding[:, :, None, None])
        hidden = hidden + nn.functional.silu(self.second(hidden))
        return self.head(hidden, embedding)
