"""Training and testing a model with a Schedule-Free optimiser, BatchNorm included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from optimizers import ScheduleFree

Batch = tuple[Tensor, Tensor]  # inputs (B, ...), targets (B, ...)
Loss = Callable[[Tensor, Tensor], Tensor]  # outputs, targets -> scalar


def train_epoch(
    model: nn.Module, optimizer: ScheduleFree, batches: Iterable[Batch], loss: Loss
) -> list[float]:
    """One pass over the batches with the parameters at y. Returns the loss of each batch before its step."""
    model.train()
    optimizer.train()
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        value = loss(model(inputs), targets)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def recalibrate_batch_norm(model: nn.Module, batches: Sequence[Tensor]) -> None:
    """Replace the running statistics of all BatchNorm layers by those of the present parameters.

    Training collected them at y; they do not fit x. Only BatchNorm layers are in training mode meanwhile. Afterwards,
    also after an error in the model, every module has its own mode and momentum again.

    Args:
        model: any model; without BatchNorm layers nothing in it changes.
        batches: inputs (B, ...); each batch counts the same.

    Raises:
        ValueError: no batches; the model is as it was.
    """
    # <paper2code name="BatchNorm statistics at the average">
    if not batches:
        raise ValueError("BatchNorm statistics need at least one batch")
    modes = [(module, module.training) for module in model.modules()]
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    momenta = [layer.momentum for layer in layers]
    model.eval()
    # <paper2code name="start BatchNorm layers afresh with a cumulative mean">
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
        layer.train()
    # </paper2code name="start BatchNorm layers afresh with a cumulative mean">
    try:
        with torch.no_grad():
            for inputs in batches:
                model(inputs)
    finally:
        for layer, momentum in zip(layers, momenta):
            layer.momentum = momentum
        for module, mode in modes:
            module.training = mode
    # </paper2code name="BatchNorm statistics at the average">


@torch.no_grad()
def evaluate(
    model: nn.Module, optimizer: ScheduleFree, batches: Sequence[Batch], loss: Loss
) -> float:
    """The mean loss over the batches with the parameters at x and fresh BatchNorm statistics."""
    optimizer.eval()
    recalibrate_batch_norm(model, [inputs for inputs, _ in batches])
    model.eval()
    return sum(loss(model(inputs), targets).item() for inputs, targets in batches) / len(batches)
