"""One step of training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fractal import Fractal


def training_step(
    model: Fractal,
    averages: dict[str, Tensor],
    optimizer: torch.optim.Optimizer,
    images: Tensor,
    labels: Tensor,
    generator: torch.Generator,
    step: int,
    *,
    rate: float,
    warmup: int,
    decay: float = 0.999,
    max_norm: float = 3.0,
) -> float:
    """Update the model and the averages of its parameters.

    Args:
        averages: by the names of ``named_parameters``; changed in place.
        images: (B, 3, s, s), int64.
        labels: (B,), int64.
        generator: first draws (B,) numbers of float64 for `Fractal.drop_labels`, then serves the loss.
        step: the number of this step, from 0.
        rate: learning rate after the warm-up.
        warmup: steps of the warm-up; may be 0.

    Returns:
        The loss before the update.

    Raises:
        FloatingPointError: the loss is not finite; parameters, averages and optimizer are unchanged.
    """
    # <paper2code name="training step">
    uniforms = torch.rand(len(labels), generator=generator, dtype=torch.float64)
    condition = model.condition(model.drop_labels(labels, uniforms))
    loss = model.loss(images, condition, generator).mean()
    if not loss.isfinite():
        raise FloatingPointError(f"the loss of step {step} is {loss.item()}")
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for group in optimizer.param_groups:
        group["lr"] = rate * min(1.0, (step + 1) / max(warmup, 1))
    optimizer.step()
    # <paper2code name="average of parameters">
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            averages[name].lerp_(parameter, 1 - decay)
    # </paper2code name="average of parameters">
    return loss.item()
    # </paper2code name="training step">
