"""Sampling with classifier-free guidance, and editing of images."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from schedule import Schedule

Denoiser = Callable[[Tensor, Tensor, Tensor], Tensor]


def sampling_timesteps(steps: int, count: int) -> list[int]:
    """``count`` timesteps of 0 .. steps-1 with almost equal gaps, falling, the last of them 0."""
    return [index * steps // count for index in reversed(range(count))]


@torch.no_grad()
def denoise(
    model: Denoiser,
    schedule: Schedule,
    noisy: Tensor,
    prompts: Tensor,
    timesteps: list[int],
    guidance: float = 7.5,
    eta: float = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Go from images at the first of some falling timesteps to clean images.

    Args:
        model: predicts the noise; called once per timestep, without prompts before with prompts.
        schedule: the forward process.
        noisy: (B, C, H, W): images at ``timesteps[0]``.
        prompts: (B,), int64; number 0 is the empty prompt.
        timesteps: falling.
        guidance: scale of classifier-free guidance; 1 means none.
        eta: how random the steps are: 0 not at all, 1 as much as in ancestral sampling.
        generator: where fresh noise comes from, (B, C, H, W) for each timestep but the last, also
            when ``eta`` is 0.

    Returns:
        (B, C, H, W).
    """
    # <paper2code name="guided DDIM sampler">
    x = noisy
    for here, there in zip(timesteps, [*timesteps[1:], None]):
        alpha, sigma = schedule.alphas[here].item(), schedule.sigmas[here].item()
        # <paper2code name="classifier-free guidance">
        times = torch.full((2 * len(x),), here)
        both = torch.cat([torch.zeros_like(prompts), prompts])
        empty, conditional = model(torch.cat([x, x]), times, both).chunk(2)
        predicted = empty + guidance * (conditional - empty)
        # </paper2code name="classifier-free guidance">
        clean = (x - sigma * predicted) / alpha
        if there is None:
            x = clean
            continue
        alpha_next, sigma_next = schedule.alphas[there].item(), schedule.sigmas[there].item()
        ratio = alpha / alpha_next
        spread = eta * sigma_next / sigma * (1 - ratio**2) ** 0.5
        direction = (sigma_next**2 - spread**2) ** 0.5
        fresh = torch.randn(x.shape, dtype=x.dtype, generator=generator)
        x = alpha_next * clean + direction * predicted + spread * fresh
    return x
    # </paper2code name="guided DDIM sampler">


def edit(
    model: Denoiser,
    schedule: Schedule,
    images: Tensor,
    prompts: Tensor,
    strength: float,
    count: int,
    noise: Tensor,
) -> Tensor:
    """SDEdit: noise images (B, C, H, W) to a share ``strength`` of the way, and denoise them."""
    reached = strength * schedule.steps
    timesteps = [t for t in sampling_timesteps(schedule.steps, count) if t <= reached]
    start = torch.full((len(images),), timesteps[0])
    return denoise(model, schedule, schedule.noised(images, noise, start), prompts, timesteps)
