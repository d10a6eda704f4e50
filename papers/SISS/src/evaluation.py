"""What is forgotten, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from losses import squared_norms
from schedule import Schedule

Denoiser = Callable[[Tensor, Tensor], Tensor]


@torch.no_grad()
def reconstruct(
    model: Denoiser, schedule: Schedule, images: Tensor, noise: Tensor, start: int, stride: int
) -> Tensor:
    """Make images (B, ...) noisy up to timestep ``start``, and denoise them without randomness.

    Args:
        model: predicts the noise.
        schedule: the forward process.
        images: (B, ...).
        noise: (B, ...).
        start: where to begin.
        stride: how many timesteps are taken at once.

    Raises:
        ValueError: ``start`` is not in 0 .. T-1, or ``stride`` is less than 1.
    """
    # <paper2code name="noising and denoising again">
    if not 0 <= start < schedule.steps or stride < 1:
        raise ValueError(f"cannot go down from {start} by {stride}")
    gamma, sigma = schedule.gammas[start].item(), schedule.sigmas[start].item()
    noisy = gamma * images + sigma * noise
    for timestep in range(start, -1, -stride):
        predicted = model(noisy, torch.full((len(images),), timestep))
        clean = (noisy - sigma * predicted) / gamma
        if timestep >= stride:
            gamma, sigma = (table[timestep - stride].item() for table in schedule)
            noisy = gamma * clean + sigma * predicted
    return clean
    # </paper2code name="noising and denoising again">


@torch.no_grad()
def memory(
    model: Denoiser,
    schedule: Schedule,
    images: Tensor,
    noise: Tensor,
    start: int,
    stride: int,
    embed: Callable[[Tensor], Tensor],
) -> Tensor:
    """How similar reconstructions are to the images: (B,), mean cosine similarity over draws.

    Args:
        noise: (K, B, ...): one reconstruction is made with each of K.
        embed: images (B, ...) to descriptors (B, E).
    """
    target = embed(images)
    made = [embed(reconstruct(model, schedule, images, one, start, stride)) for one in noise]
    return torch.cosine_similarity(torch.stack(made), target, dim=-1).mean(dim=0)


@torch.no_grad()
def bits_per_dimension(
    model: Denoiser, schedule: Schedule, images: Tensor, noise: Tensor
) -> Tensor:
    """The variational bound of the negative log-likelihood.

    Args:
        model: predicts the noise; called once per timestep, from the first to the last.
        schedule: the forward process.
        images: (B, ...).
        noise: (T, B, ...): the noise of each timestep.

    Returns:
        (B,), double precision.
    """
    # <paper2code name="variational bound in bits per dimension">
    dimensions = math.prod(images.shape[1:])
    ratios = (schedule.gammas / schedule.sigmas) ** 2  # (T,): signal to noise
    errors = []
    for timestep, one in enumerate(noise):
        times = torch.full((len(images),), timestep)
        gamma, sigma = schedule.at(times, images)
        predicted = model(gamma * images + sigma * one, times)
        errors.append(squared_norms(one - predicted).double())
    total = errors[0] / 2 + dimensions / 2 * (math.log(2 * math.pi) - ratios[0].log())
    for before, here, error in zip(ratios, ratios[1:], errors[1:]):
        total = total + (before / here - 1) / 2 * error
    gamma, sigma = schedule.gammas[-1], schedule.sigmas[-1]
    prior = squared_norms(images.double()) * gamma**2
    prior += dimensions * (sigma**2 - 1 - 2 * sigma.log())
    return (total + prior / 2) / (dimensions * math.log(2))
    # </paper2code name="variational bound in bits per dimension">


def forgotten_share(samples: Tensor, data: Tensor, forget: Tensor) -> float:
    """Share of samples (N, ...) whose nearest image of ``data`` (n, ...) is one to forget.

    Distances are Euclidean; of images at equal distance, the first counts.
    """
    gaps = data.flatten(1)[:, None] - samples.flatten(1)  # (n, N, D)
    nearest = torch.linalg.vector_norm(gaps, dim=2).argmin(dim=0)
    return torch.isin(nearest, forget).double().mean().item()
