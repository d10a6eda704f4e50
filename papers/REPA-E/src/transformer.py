"""A small diffusion transformer that also gives a projection of its hidden tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class DiffusionTransformer(nn.Module):
    """Each latent position is a token. The last class stands for "no class"."""

    def __init__(
        self, latent: int = 2, classes: int = 3, width: int = 8, features: int = 6
    ) -> None:
        super().__init__()
        self.null_label = classes
        self.enter = nn.Linear(latent, width)
        self.time = nn.Sequential(nn.Linear(2, width), nn.SiLU(), nn.Linear(width, width))
        self.label = nn.Embedding(classes + 1, width)
        layer = dict(dropout=0.0, batch_first=True, norm_first=True)
        self.first = nn.TransformerEncoderLayer(width, 2, 2 * width, **layer)
        self.second = nn.TransformerEncoderLayer(width, 2, 2 * width, **layer)
        self.leave = nn.Linear(width, latent)
        self.projector = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, features))

    def forward(self, x: Tensor, t: Tensor, labels: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Velocity (B, L, H, W), and projections (B, H * W, features), one for the single frozen encoder."""
        condition = self.time(torch.stack([t, t * t], dim=1)) + self.label(labels)
        hidden = self.first(self.enter(x.flatten(2).mT) + condition[:, None])
        velocity = self.leave(self.second(hidden)).mT.reshape(x.shape)
        return velocity, [self.projector(hidden)]
