"""The gradients of DyT in closed form, as a fused backward pass needs them.

Only the input and the parameters are wanted: the squashed activations are computed again, so a
forward pass that uses this keeps nothing but ``x``. Inputs are channels last.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Gradients(NamedTuple):
    """Gradients of a scalar loss with respect to everything DyT depends on."""

    x: Tensor  # (..., C)
    alpha: Tensor  # (1,)
    weight: Tensor  # (C,)
    bias: Tensor  # (C,)


def dynamic_tanh_gradients(upstream: Tensor, x: Tensor, alpha: Tensor, weight: Tensor) -> Gradients:
    """Carry the loss gradient back through DyT.

    Args:
        upstream: gradient of the loss with respect to the output, (..., C).
        x: the input of the layer, (..., C).
        alpha: the scalar, (1,).
        weight: the per-channel scale gamma, (C,).

    Raises:
        ValueError: ``upstream`` and ``x`` differ in shape.
    """
    # <paper2code name="backward pass in closed form">
    if upstream.shape != x.shape:
        raise ValueError(f"shapes differ: {tuple(upstream.shape)} and {tuple(x.shape)}")
    squashed = torch.tanh(alpha * x)
    inner = upstream * weight * (1 - squashed**2)  # gradient at alpha * x
    # <paper2code name="gradient of alpha">
    grad_alpha = (inner * x).sum().reshape(alpha.shape)
    # </paper2code name="gradient of alpha">
    per_channel = upstream.reshape(-1, x.shape[-1])  # (rows, C)
    grad_weight = (per_channel * squashed.reshape(per_channel.shape)).sum(0)
    return Gradients(alpha * inner, grad_alpha, grad_weight, per_channel.sum(0))
    # </paper2code name="backward pass in closed form">
