"""Subtracted importance sampled scores (SISS), and the same loss without importance sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from mixture import importance_ratios, mixture_sample
from schedule import Schedule

Denoiser = Callable[[Tensor, Tensor], Tensor]


class Terms(NamedTuple):
    """What SISS consists of, per image.

    Attributes:
        keep: (B,): what shall become small.
        forget: (B,): what is subtracted.
    """

    keep: Tensor
    forget: Tensor


def squared_norms(values: Tensor) -> Tensor:
    """(B, ...) to (B,)."""
    return values.square().flatten(1).sum(dim=1)


def siss_terms(
    model: Denoiser,
    schedule: Schedule,
    kept: Tensor,
    forgotten: Tensor,
    timesteps: Tensor,
    noise: Tensor,
    uniforms: Tensor,
    mixing: float,
) -> Terms:
    """Both terms from a single call of the model.

    Args:
        model: predicts the noise.
        schedule: the forward process.
        kept: (B, ...): x, images of the whole data set.
        forgotten: (B, ...): a, images of the unlearning set.
        timesteps: (B,), int64.
        noise: (B, ...), standard normal.
        uniforms: (B,), in [0, 1).
        mixing: lambda.

    Returns:
        Terms in the dtype of the model's prediction.

    Raises:
        ValueError: ``kept`` and ``forgotten`` differ in shape, or ``mixing`` is not in [0, 1].
    """
    # <paper2code name="SISS terms of one forward pass">
    if kept.shape != forgotten.shape:
        raise ValueError(f"images of {tuple(kept.shape)} and {tuple(forgotten.shape)}")
    with torch.no_grad():
        noisy = mixture_sample(schedule, kept, forgotten, timesteps, noise, uniforms, mixing)
        ratios = importance_ratios(schedule, noisy, kept, forgotten, timesteps, mixing)
    predicted = model(noisy, timesteps)
    terms = []
    for ratio, clean in zip(ratios, (kept.detach(), forgotten.detach())):
        # <paper2code name="noise that leads to a clean image">
        gamma, sigma = schedule.at(timesteps, noisy)
        target = (noisy - gamma * clean) / sigma
        # </paper2code name="noise that leads to a clean image">
        terms.append(ratio.to(predicted.dtype) * squared_norms(target - predicted))
    return Terms(*terms)
    # </paper2code name="SISS terms of one forward pass">


def separate_terms(
    model: Denoiser,
    schedule: Schedule,
    kept: Tensor,
    forgotten: Tensor,
    timesteps: Tensor,
    noise: Tensor,
) -> Terms:
    """The terms without importance sampling: each clean image has a noisy image of its own.

    Args:
        model: predicts the noise; called once.
        schedule: the forward process.
        kept: (B, ...): x.
        forgotten: (B, ...): a.
        timesteps: (B,), int64; x and a share them.
        noise: (2B, ...): for the kept images, then for the forgotten ones.
    """
    # <paper2code name="terms without importance sampling">
    clean = torch.cat([kept, forgotten])
    gamma, sigma = schedule.at(timesteps.repeat(2), clean)
    predicted = model(gamma * clean + sigma * noise, timesteps.repeat(2))
    return Terms(*squared_norms(noise - predicted).chunk(2))
    # </paper2code name="terms without importance sampling">


def weighted_losses(terms: Terms, total: int, unlearned: int) -> tuple[Tensor, Tensor]:
    """The two losses whose difference is the loss on the data that stays.

    Args:
        terms: of a batch.
        total: n, the size of the whole data set.
        unlearned: k, the size of the unlearning set.

    Returns:
        Both (): the loss to descend on, and the loss to subtract from it.

    Raises:
        ValueError: not 0 < k < n.
    """
    # <paper2code name="weights of the two losses">
    if not 0 < unlearned < total:
        raise ValueError(f"{unlearned} of {total} images to unlearn")
    remaining = total - unlearned
    keep = total / remaining * terms.keep.mean()
    forget = unlearned / remaining * terms.forget.mean()
    return keep, forget
    # </paper2code name="weights of the two losses">


def siss_loss(terms: Terms, total: int, unlearned: int, superfactor: float = 0.0) -> Tensor:
    """SISS with a fixed superfactor s; with s = 0 it is the loss of deleting and retraining."""
    keep, forget = weighted_losses(terms, total, unlearned)
    return keep - (1 + superfactor) * forget
