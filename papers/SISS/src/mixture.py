"""One noisy image for two clean ones: the defensive mixture, and its importance ratios."""

from __future__ import annotations

import torch
from torch import Tensor

from schedule import Schedule


def mixture_sample(
    schedule: Schedule,
    kept: Tensor,
    forgotten: Tensor,
    timesteps: Tensor,
    noise: Tensor,
    uniforms: Tensor,
    mixing: float,
) -> Tensor:
    """Draw noisy images from the mixture.

    Args:
        schedule: the forward process.
        kept: (B, ...): x, images of the whole data set.
        forgotten: (B, ...): a, images of the unlearning set.
        timesteps: (B,), int64.
        noise: (B, ...), standard normal.
        uniforms: (B,), in [0, 1): decide which component each image is drawn from.
        mixing: lambda, the share of the component around ``forgotten``.

    Returns:
        (B, ...).
    """
    # <paper2code name="draw from the defensive mixture">
    gamma, sigma = schedule.at(timesteps, kept)
    around_forgotten = (uniforms < mixing).reshape(gamma.shape)
    return gamma * torch.where(around_forgotten, forgotten, kept) + sigma * noise
    # </paper2code name="draw from the defensive mixture">


def importance_ratios(
    schedule: Schedule,
    noisy: Tensor,
    kept: Tensor,
    forgotten: Tensor,
    timesteps: Tensor,
    mixing: float,
) -> Tensor:
    """How much likelier noisy images are given one clean image than under the mixture.

    Args:
        schedule: the forward process.
        noisy: (B, ...): m, drawn from the mixture.
        kept: (B, ...): x.
        forgotten: (B, ...): a.
        timesteps: (B,), int64.
        mixing: lambda.

    Returns:
        (2, B), double precision, no graph: the ratio of x, then the ratio of a.

    Raises:
        ValueError: ``mixing`` is not in [0, 1].
    """
    # <paper2code name="importance ratios">
    if not 0 <= mixing <= 1:
        raise ValueError(f"mixing must be in [0, 1], not {mixing}")
    # <paper2code name="log-densities of both components">
    gamma, sigma = schedule.at(timesteps, noisy.double())
    standardized = (noisy - gamma * torch.stack([kept, forgotten])) / sigma  # (2, B, ...)
    logs = -standardized.square().flatten(2).sum(dim=2) / 2
    # </paper2code name="log-densities of both components">
    shares = logs.new_tensor([[1 - mixing], [mixing]])
    mixture = torch.logsumexp(logs + shares.log(), dim=0)
    return (logs - mixture).exp().detach()
    # </paper2code name="importance ratios">
