"""Weights that are an identity with a little noise, so that every neuron sees a slope close to 1."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

METHODS = ("proposed", "xavier_normal", "xavier_uniform")


def anchor_matrix(n_out: int, n_in: int, dtype: torch.dtype | None = None) -> Tensor:
    """The matrix D, shape (n_out, n_in): each row has a single one."""
    # <paper2code name="anchor matrix">
    rows = torch.arange(n_out)
    columns = torch.arange(n_in)
    return (rows[:, None] % n_in == columns).to(dtype or torch.get_default_dtype())
    # </paper2code name="anchor matrix">


@torch.no_grad()
def tanh_init_(weight: Tensor, alpha: float = 0.085, generator: torch.Generator | None = None) -> Tensor:
    """Fill a weight matrix in place with the proposed initialization, and return it.

    Args:
        weight: (n_out, n_in), of a floating-point dtype.
        alpha: scale of the noise, at least 0 and finite.
        generator: for the only draw: ``torch.randn`` of the weight's shape and dtype.

    Raises:
        ValueError: ``weight`` has not two dimensions, or ``alpha`` is out of its range.
    """
    # <paper2code name="proposed initialization">
    if weight.dim() != 2:
        raise ValueError(f"the weight must have two dimensions, not {weight.dim()}")
    if not 0 <= alpha < math.inf:
        raise ValueError(f"alpha must be at least 0 and finite, not {alpha}")
    n_out, n_in = weight.shape
    # <paper2code name="scale of the noise">
    sigma = alpha / math.sqrt(n_in)
    # </paper2code name="scale of the noise">
    noise = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    return weight.copy_(anchor_matrix(n_out, n_in, weight.dtype) + sigma * noise)
    # </paper2code name="proposed initialization">


@torch.no_grad()
def initialize_network_(
    network: nn.Module,
    method: str = "proposed",
    alpha: float = 0.085,
    generator: torch.Generator | None = None,
) -> int:
    """Initialize every linear layer of a network in place; return how many there are.

    Args:
        network: its ``nn.Linear`` modules are initialized in the order of ``network.modules()``.
        method: one of METHODS.
        alpha: for "proposed" only.
        generator: for one draw of the weight's shape and dtype per layer: ``torch.randn``, or
            ``torch.rand`` for "xavier_uniform".

    Raises:
        ValueError: an unknown method, or a network without linear layers; nothing is changed then.
    """
    # <paper2code name="initialization of a network">
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, not {method!r}")
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise ValueError("the network has no linear layers")
    for layer in layers:
        weight = layer.weight
        fans = sum(weight.shape)
        if method == "proposed":
            tanh_init_(weight, alpha, generator)
        elif method == "xavier_normal":
            draw = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
            weight.copy_(math.sqrt(2 / fans) * draw)
        else:
            draw = torch.rand(weight.shape, generator=generator, dtype=weight.dtype)
            weight.copy_(math.sqrt(6 / fans) * (2 * draw - 1))
        if layer.bias is not None:
            layer.bias.zero_()
    return len(layers)
    # </paper2code name="initialization of a network">
