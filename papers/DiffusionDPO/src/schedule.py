"""The forward process: how much signal and how much noise there is at each timestep.

Timesteps are 0 .. T-1, from least to most noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Schedule(NamedTuple):
    """All in double precision.

    Attributes:
        betas: (T,): share of the variance that is replaced by noise at each timestep.
        alphas: (T,): factor of the clean image at each timestep.
        sigmas: (T,): standard deviation of the noise at each timestep.
    """

    betas: Tensor
    alphas: Tensor
    sigmas: Tensor

    @property
    def steps(self) -> int:
        """T."""
        return len(self.betas)

    def snr(self, timesteps: Tensor) -> Tensor:
        """The signal-to-noise ratio lambda of timesteps (B,), as double precision (B,)."""
        return (self.alphas[timesteps] / self.sigmas[timesteps]) ** 2

    def noised(self, clean: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """Clean images (B, ...) and noise (B, ...) at timesteps (B,), mixed: (B, ...)."""
        # <paper2code name="forward process">
        signal = spread(self.alphas[timesteps], clean) * clean
        return signal + spread(self.sigmas[timesteps], noise) * noise
        # </paper2code name="forward process">

    def posterior(self, noisy: Tensor, clean: Tensor, timesteps: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (B, ...) and variance (B,) of an image one timestep earlier, given both ends.

        Timesteps must be at least 1; the variance is in double precision.
        """
        beta, sigma = self.betas[timesteps], self.sigmas[timesteps]
        alpha_before, sigma_before = self.alphas[timesteps - 1], self.sigmas[timesteps - 1]
        from_clean = alpha_before * beta / sigma**2
        from_noisy = (1 - beta).sqrt() * sigma_before**2 / sigma**2
        mean = spread(from_clean, clean) * clean + spread(from_noisy, noisy) * noisy
        return mean, beta * sigma_before**2 / sigma**2


def spread(values: Tensor, images: Tensor) -> Tensor:
    """One number per image (B,), in the dtype of the images, shaped to be multiplied with them."""
    return values.to(images.dtype).reshape(-1, *[1] * (images.dim() - 1))


def scaled_linear_schedule(steps: int, first: float = 0.00085, last: float = 0.012) -> Schedule:
    """The schedule of Stable Diffusion: the square roots of beta grow linearly."""
    betas = np.linspace(first**0.5, last**0.5, steps) ** 2
    kept = np.cumprod(1 - betas)
    return Schedule(*(torch.from_numpy(x) for x in (betas, np.sqrt(kept), np.sqrt(1 - kept))))
