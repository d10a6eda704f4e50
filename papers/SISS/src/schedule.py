"""The forward process: m_t = gamma_t x + sigma_t noise, at timesteps 0 .. T-1."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Schedule(NamedTuple):
    """Both in double precision; their squares sum to 1.

    Attributes:
        gammas: (T,): factor of the clean image, falling.
        sigmas: (T,): standard deviation of the noise, rising.
    """

    gammas: Tensor
    sigmas: Tensor

    @property
    def steps(self) -> int:
        """T."""
        return len(self.gammas)

    def at(self, timesteps: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        """gamma and sigma of timesteps (B,), in the dtype of images (B, ...), as (B, 1, ...)."""
        shape = (-1, *[1] * (images.dim() - 1))
        gamma, sigma = self.gammas[timesteps], self.sigmas[timesteps]
        return gamma.to(images.dtype).reshape(shape), sigma.to(images.dtype).reshape(shape)


def linear_schedule(steps: int, first: float = 1e-4, last: float = 0.02) -> Schedule:
    """The schedule of DDPM: the variance that each timestep replaces by noise grows linearly."""
    kept = np.cumprod(1 - np.linspace(first, last, steps))
    return Schedule(torch.from_numpy(np.sqrt(kept)), torch.from_numpy(np.sqrt(1 - kept)))
