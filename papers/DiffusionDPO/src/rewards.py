"""The reward model that is hidden in a fine-tuned diffusion model."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from losses import squared_norms
from schedule import Schedule
from weighting import timestep_weights

Denoiser = Callable[[Tensor, Tensor, Tensor], Tensor]


@torch.no_grad()
def implicit_rewards(
    policy: Denoiser,
    reference: Denoiser,
    schedule: Schedule,
    images: Tensor,
    prompts: Tensor,
    timesteps: Tensor,
    noise: Tensor,
    beta: float,
    weighting: str = "constant",
) -> Tensor:
    """Estimate the implicit reward of images, up to a constant per prompt.

    Args:
        policy: the fine-tuned model; called once per draw.
        reference: the model it comes from.
        schedule: the forward process.
        images: (B, C, H, W).
        prompts: (B,), int64.
        timesteps: (K,), int64: the timestep of each of K draws, the same for all images.
        noise: (K, C, H, W): the noise of each draw, the same for all images.
        beta: strength of the KL regularisation.
        weighting: kind of the timestep weights.

    Returns:
        (B,), in double precision.
    """
    # <paper2code name="Monte Carlo estimate of implicit rewards">
    weights = timestep_weights(schedule, timesteps, weighting)
    total = torch.zeros(len(images), dtype=torch.float64)
    for timestep, one, weight in zip(timesteps, noise, weights):
        times, target = timestep.repeat(len(images)), one.expand_as(images)
        noisy = schedule.noised(images, target, times)
        before = squared_norms(reference(noisy, times, prompts) - target)
        after = squared_norms(policy(noisy, times, prompts) - target)
        total += weight * (before - after)
    return beta * schedule.steps * total / len(timesteps)
    # </paper2code name="Monte Carlo estimate of implicit rewards">
