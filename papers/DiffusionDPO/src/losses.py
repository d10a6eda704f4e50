"""The Diffusion-DPO objective, and the objectives over denoising chains that it stands for."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F

from schedule import Schedule, spread


def squared_norms(errors: Tensor) -> Tensor:
    """Squared norm of the error of each image: (B, ...) to (B,)."""
    return errors.square().flatten(1).sum(dim=1)


class DPOLoss(NamedTuple):
    """What the Diffusion-DPO loss of a batch of B pairs consists of.

    Attributes:
        loss: (), to be minimised; the only one with a gradient.
        rewards: (B, 2): implicit rewards of the preferred and of the rejected image.
        accuracy: (): share of pairs whose preferred image has the larger implicit reward.
    """

    loss: Tensor
    rewards: Tensor
    accuracy: Tensor


def diffusion_dpo_loss(
    policy_errors: Tensor, reference_errors: Tensor, weights: Tensor, beta: float, steps: int
) -> DPOLoss:
    """The Diffusion-DPO loss.

    Args:
        policy_errors: (2B,): squared errors of the trained model, first of the B preferred images,
            then of the B rejected images in the same order.
        reference_errors: (2B,): the same of the frozen model.
        weights: (B,): weight omega of the timestep of each pair, in any floating-point dtype.
        beta: strength of the KL regularisation.
        steps: T.

    Raises:
        ValueError: shapes do not fit, there is no pair, or beta is not positive.
    """
    # <paper2code name="Diffusion-DPO loss">
    pairs = len(weights)
    if not beta > 0:
        raise ValueError(f"beta must be positive, not {beta}")
    if pairs == 0 or policy_errors.shape != (2 * pairs,):
        raise ValueError(f"{tuple(policy_errors.shape)} errors for {pairs} pairs")
    if reference_errors.shape != policy_errors.shape:
        raise ValueError(f"{tuple(reference_errors.shape)} errors of the reference")
    # <paper2code name="implicit rewards of pairs">
    improvement = reference_errors.detach() - policy_errors  # (2B,)
    scale = beta * steps * weights.to(improvement.dtype)
    rewards = scale[:, None] * improvement.reshape(2, pairs).T
    # </paper2code name="implicit rewards of pairs">
    preferred, rejected = rewards.T
    margins = preferred - rejected
    loss = -F.logsigmoid(margins).mean()
    correct = (margins > 0).to(margins.dtype) + 0.5 * (margins == 0).to(margins.dtype)
    return DPOLoss(loss, rewards.detach(), correct.mean())
    # </paper2code name="Diffusion-DPO loss">


def transition_log_ratios(
    schedule: Schedule,
    earlier: Tensor,
    noisy: Tensor,
    policy_noise: Tensor,
    reference_noise: Tensor,
    timesteps: Tensor,
) -> Tensor:
    """How much more likely a denoising step is under the trained than under the frozen model.

    Args:
        schedule: the forward process.
        earlier: (B, ...): images at timesteps t - 1.
        noisy: (B, ...): images at timesteps t.
        policy_noise: (B, ...): what the trained model predicts for ``noisy``.
        reference_noise: (B, ...): what the frozen model predicts for ``noisy``.
        timesteps: (B,), int64.

    Returns:
        (B,), in the dtype of the images: log p_policy(earlier | noisy) - log p_reference(earlier | noisy).

    Raises:
        ValueError: a timestep is less than 1.
    """
    # <paper2code name="log-ratio of a denoising step">
    if (timesteps < 1).any():
        raise ValueError("the step to clean images has no density")
    alpha = spread(schedule.alphas[timesteps], noisy)
    sigma = spread(schedule.sigmas[timesteps], noisy)
    distances = []
    for predicted in (reference_noise, policy_noise):
        clean = (noisy - sigma * predicted) / alpha
        mean, variance = schedule.posterior(noisy, clean, timesteps)
        distances.append(squared_norms(mean - earlier))
    to_reference, to_policy = distances
    return (to_reference - to_policy) / (2 * variance).to(noisy.dtype)
    # </paper2code name="log-ratio of a denoising step">


def chain_losses(log_ratios: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """DPO over whole denoising chains, and its bound that looks at single steps.

    Args:
        log_ratios: (K, B, 2, T): log-ratio of each of T steps of K chains that lead to each of the
            B preferred (index 0) and rejected (index 1) images.
        beta: strength of the KL regularisation.

    Returns:
        Both (): the loss of whole chains, and its upper bound.
    """
    # <paper2code name="loss of chains and its per-step bound">
    gaps = log_ratios[:, :, 0] - log_ratios[:, :, 1]  # (K, B, T)
    whole = beta * gaps.sum(dim=-1).mean(dim=0)
    single = beta * gaps.shape[-1] * gaps
    return F.softplus(-whole).mean(), F.softplus(-single).mean()
    # </paper2code name="loss of chains and its per-step bound">
