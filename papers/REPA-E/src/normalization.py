"""Batch normalization of latents without learnt parameters, between the VAE and the diffusion model."""

from __future__ import annotations

import torch
from torch import Tensor, nn

CHANNELWISE = (0, 2, 3)  # the dimensions that statistics are taken over


class LatentNorm(nn.Module):
    """Keeps latents (B, C, H, W) at mean 0 and variance 1 per channel while the VAE moves.

    Attributes:
        mean, variance: (C,), buffers: running statistics, at first 0 and 1.
        batches: (), buffer, int64: number of batches that the statistics have seen.
    """

    def __init__(self, channels: int, momentum: float | None = 0.1, epsilon: float = 1e-4) -> None:
        super().__init__()
        self.momentum, self.epsilon = momentum, epsilon
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))
        self.register_buffer("batches", torch.zeros((), dtype=torch.long))

    def forward(self, z: Tensor) -> Tensor:
        """Normalize, by the batch in training mode (which updates the statistics), else by the statistics.

        Raises:
            ValueError: z is not (B, C, H, W) with the right C, or, in training mode, there is only one value per
                channel; the statistics have not changed then.
        """
        # <paper2code name="normalization of latents">
        if z.dim() != 4 or z.shape[1] != len(self.mean):
            raise ValueError(f"latents of shape {tuple(z.shape)} for {len(self.mean)} channels")
        mean, variance = self.mean, self.variance
        if self.training:
            batch, _, height, width = z.shape
            count = batch * height * width
            if count < 2:
                raise ValueError("batch statistics need two values per channel")
            variance, mean = torch.var_mean(z, dim=CHANNELWISE, correction=0)
            # <paper2code name="running statistics">
            unbiased = variance.detach() * count / (count - 1)
            self.batches += 1
            momentum = 1 / self.batches.item() if self.momentum is None else self.momentum
            self.mean.lerp_(mean.detach(), momentum)
            self.variance.lerp_(unbiased, momentum)
            # </paper2code name="running statistics">
        shape = (1, -1, 1, 1)
        return (z - mean.reshape(shape)) / (variance + self.epsilon).sqrt().reshape(shape)
        # </paper2code name="normalization of latents">

    def denormalize(self, x: Tensor) -> Tensor:
        """Undo the normalization by the running statistics, whatever the mode."""
        # <paper2code name="back to the latents of the VAE">
        scale = (self.variance + self.epsilon).sqrt()
        return x * scale[:, None, None] + self.mean[:, None, None]
        # </paper2code name="back to the latents of the VAE">
