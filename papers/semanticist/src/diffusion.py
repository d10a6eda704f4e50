"""Training the tokenizer by denoising, and reconstructing images from some first tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from nested import keep_counts, replace_tail

Decoder = Callable[[Tensor, Tensor, Tensor], Tensor]


class NoiseSchedule:
    """Linear variances between 1e-4 and 0.02.

    Attributes:
        alpha_bar: (T,), float64: how much of the image's variance is left at each time.
    """

    def __init__(self, length: int = 1000) -> None:
        self.length = length
        self.alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, length).double(), dim=0)

    def spaced(self, steps: int) -> list[int]:
        """``steps`` times from T - 1 down to 0, as evenly spaced as integers can be."""
        return torch.linspace(self.length - 1, 0, steps).round().long().tolist()


class TokenizerLoss(NamedTuple):
    """A loss and what it is made of.

    Attributes:
        mean: the loss, a scalar: the mean of the errors.
        errors: (B,): of the single images.
        by_count: (K + 1,): mean error of the images that kept 0, 1, ..., K tokens, without
            gradients; NaN where there is no such image.
    """

    mean: Tensor
    errors: Tensor
    by_count: Tensor


def tokenizer_loss(
    encoder: Callable[[Tensor], Tensor],
    decoder: Decoder,
    null: Tensor,
    schedule: NoiseSchedule,
    images: Tensor,
    times: Tensor,
    noise: Tensor,
    uniforms: Tensor,
    drop: float = 0.1,
) -> TokenizerLoss:
    """How well the decoder finds the noise when it is told a random number of first tokens.

    Args:
        encoder: images to tokens (B, K, d).
        decoder: noised images, times and tokens to noise.
        null: (d,), the null token.
        schedule: of the noise.
        images, noise: (B, C, H, H).
        times: (B,), integers.
        uniforms: (B, 2): for the numbers of tokens that are kept.
        drop: the probability of keeping none.

    Raises:
        ValueError: a time is negative or not less than T, or the noise does not have the shape of
            the images.
    """
    # <paper2code name="nested diffusion loss">
    if ((times < 0) | (times >= schedule.length)).any():
        raise ValueError("a time is not in the schedule")
    if noise.shape != images.shape:
        raise ValueError("noise and images differ in shape")
    tokens = encoder(images)
    length = tokens.shape[-2]
    counts = keep_counts(uniforms, length, drop)
    told = replace_tail(tokens, counts, null)
    # <paper2code name="noised images">
    left = schedule.alpha_bar[times].to(images.dtype)[:, None, None, None]
    noised = left.sqrt() * images + (1 - left).sqrt() * noise
    # </paper2code name="noised images">
    wrong = decoder(noised, times, told) - noise
    errors = torch.stack([image.square().mean() for image in wrong])
    known = errors.detach()
    groups = [known[counts == k] for k in range(length + 1)]
    by_count = torch.stack([group.mean() for group in groups])  # NaN for an empty group
    return TokenizerLoss(errors.mean(), errors, by_count)
    # </paper2code name="nested diffusion loss">


@torch.no_grad()
def reconstruct(
    decoder: Decoder,
    null: Tensor,
    schedule: NoiseSchedule,
    tokens: Tensor,
    keep: int,
    noise: Tensor,
    steps: int,
    guidance: float = 1.0,
) -> Tensor:
    """Images from their first ``keep`` tokens, by deterministic (DDIM) sampling.

    Args:
        decoder: noised images, times (B,) and tokens to noise.
        null: (d,), the null token.
        schedule: of the noise.
        tokens: (B, K, d).
        keep: how many tokens are used, 0 to K.
        noise: (B, C, H, H): where sampling starts.
        steps: how many.
        guidance: 1 means none; the decoder is then called once in a step.
    """
    # <paper2code name="reconstruction from the first tokens">
    batch = len(tokens)
    told = replace_tail(tokens, torch.full((batch,), keep), null)
    nothing = null.expand_as(tokens)
    times = schedule.spaced(steps)
    left = [float(schedule.alpha_bar[t]) for t in times] + [1.0]
    x = noise
    for now, after, t in zip(left, left[1:], times):
        time = torch.full((batch,), t)
        # <paper2code name="guidance away from the null tokens">
        predicted = decoder(x, time, told)
        if guidance != 1:
            aimless = decoder(x, time, nothing)
            predicted = aimless + guidance * (predicted - aimless)
        # </paper2code name="guidance away from the null tokens">
        # <paper2code name="deterministic update with clipping">
        clean = ((x - (1 - now) ** 0.5 * predicted) / now**0.5).clamp(-1, 1)
        direction = (x - now**0.5 * clean) / (1 - now) ** 0.5
        x = after**0.5 * clean + (1 - after) ** 0.5 * direction
        # </paper2code name="deterministic update with clipping">
    return x
    # </paper2code name="reconstruction from the first tokens">
