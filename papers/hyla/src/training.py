"""One step of training, with a schedule and selective weight decay."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


def learning_rate(step: int, peak: float, warmup: int, total: int) -> float:
    """The learning rate of a step: linear warmup, then half a cosine down to zero.

    Raises:
        ValueError: not 0 <= ``warmup`` < ``total``, or ``step`` is negative.
    """
    if not 0 <= warmup < total or step < 0:
        raise ValueError(f"no step {step} with {warmup} of {total} steps of warmup")
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min((step - warmup) / (total - warmup), 1.0)
    return peak * 0.5 * (1.0 + math.cos(math.pi * progress))


def training_step(
    model: nn.Module,
    loss_of: Callable[[], Tensor],
    moments: dict[str, tuple[Tensor, Tensor]],
    step: int,
    rate: float,
    decay: float = 0.1,
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-8,
    largest_norm: float = 1.0,
) -> tuple[float, float]:
    """One step of AdamW, written out.

    Args:
        model: its parameters are changed in place.
        loss_of: computes the loss (scalar) of the current parameters.
        moments: first and second moments by name of parameter; empty before the first step, changed in place.
        step: 0 for the first step.
        rate: learning rate.
        decay: weight decay, of matrices only.

    Returns:
        The loss, and the norm of the gradient before it was clipped, as plain numbers.
    """
    # <paper2code name="step of AdamW with clipping">
    named = dict(model.named_parameters())
    loss = loss_of()
    gradients = torch.autograd.grad(loss, list(named.values()))
    norm = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
    scale = torch.clamp(largest_norm / norm, max=1.0)
    with torch.no_grad():
        for (name, parameter), gradient in zip(named.items(), gradients):
            gradient = gradient * scale
            zero = torch.zeros_like(parameter)
            first, second = moments.get(name, (zero, zero))
            first = betas[0] * first + (1 - betas[0]) * gradient
            second = betas[1] * second + (1 - betas[1]) * gradient.square()
            moments[name] = (first, second)
            # <paper2code name="direction of AdamW">
            mean = first / (1 - betas[0] ** (step + 1))
            spread = second / (1 - betas[1] ** (step + 1))
            direction = mean / (spread.sqrt() + eps)
            if parameter.dim() > 1:
                direction = direction + decay * parameter
            # </paper2code name="direction of AdamW">
            parameter -= rate * direction
    return loss.item(), norm.item()
    # </paper2code name="step of AdamW with clipping">
