"""AdamW, as small as can be."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


class AdamW:
    """Adam with decoupled weight decay. Parameters without a gradient are left alone.

    Args:
        parameters: what to train.
        weight_decay: share of a parameter that is taken away per step, in units of the learning rate.
    """

    def __init__(self, parameters: Iterable[Tensor], weight_decay: float) -> None:
        self.parameters = list(parameters)
        self.weight_decay = weight_decay
        self.updates = 0
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]

    def clear(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Make one step with the learning rate ``rate``."""
        self.updates += 1
        for p, first, second in zip(self.parameters, self.first, self.second):
            if p.grad is None:
                continue
            first.lerp_(p.grad, 0.1)
            second.lerp_(p.grad**2, 0.001)
            mean = first / (1 - 0.9**self.updates)
            spread = (second / (1 - 0.999**self.updates)).sqrt()
            p.mul_(1 - rate * self.weight_decay).sub_(rate * mean / (spread + 1e-8))
