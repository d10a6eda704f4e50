"""What happens to signals and gradients on their way through a deep tanh network."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from network import TanhNetwork


def effective_slopes(weight: Tensor, x: Tensor) -> Tensor:
    """The slope that every neuron sees: its input in units of the activation that it is anchored to.

    Args:
        weight: (n_out, n_in).
        x: (B, n_in).

    Returns:
        (B, n_out); NaN where the anchor's activation is 0.
    """
    # <paper2code name="effective slopes">
    n_out, n_in = weight.shape
    anchors = torch.arange(n_out) % n_in
    anchored = x[:, anchors]  # (B, n_out)
    slopes = x @ weight.T / anchored
    return slopes.masked_fill(anchored == 0, math.nan)
    # </paper2code name="effective slopes">


def slope_deviation(x: Tensor, sigma: float) -> Tensor:
    """Standard deviation of the slopes of a square layer over its random weights, (B, n) to (B, n)."""
    return sigma * x.norm(dim=1, keepdim=True) / x.abs()


@torch.no_grad()
def activation_statistics(
    network: TanhNetwork, x: Tensor, dead: float = 0.05, saturated: float = 0.95
) -> dict[str, Tensor]:
    """Statistics of all activations of each hidden layer, over samples and neurons together.

    Args:
        network: with L hidden layers.
        x: (B, widths[0]).
        dead: absolute activations below this are dead.
        saturated: absolute activations above this are saturated.

    Returns:
        "mean", "std", "kurtosis", "dead" and "saturated", each of shape (L,).

    Raises:
        ValueError: not ``0 <= dead <= saturated``.
    """
    # <paper2code name="activation statistics">
    if not 0 <= dead <= saturated:
        raise ValueError("thresholds must satisfy 0 <= dead <= saturated")
    found = {"mean": [], "std": [], "kurtosis": [], "dead": [], "saturated": []}
    for layer in network.layers[:-1]:
        x = torch.tanh(layer(x))
        centred = x - x.mean()
        variance = centred.square().mean()
        found["mean"].append(x.mean())
        found["std"].append(variance.sqrt())
        # <paper2code name="excess kurtosis">
        fourth = centred.pow(4).mean()
        excess = fourth / variance**2 - 3 if variance > 0 else torch.zeros_like(fourth)
        # </paper2code name="excess kurtosis">
        found["kurtosis"].append(excess)
        found["dead"].append((x.abs() < dead).to(x.dtype).mean())
        found["saturated"].append((x.abs() > saturated).to(x.dtype).mean())
    return {name: torch.stack(values) for name, values in found.items()}
    # </paper2code name="activation statistics">


@torch.no_grad()
def gradient_norms(network: TanhNetwork, x: Tensor, upstream: Tensor) -> Tensor:
    """Norms of the gradients at the inputs of all linear layers, without autograd.

    Args:
        network: with L linear layers.
        x: (B, widths[0]).
        upstream: (B, widths[-1]): the gradient of a loss at the network's output.

    Returns:
        (B, L): for each sample, the norm of the gradient at the input of each layer, in the order of
        the forward pass.
    """
    # <paper2code name="gradient norms by layer">
    inputs = [x]
    for layer in network.layers[:-1]:
        inputs.append(torch.tanh(layer(inputs[-1])))
    norms = []
    gradient = upstream
    for layer, activation in zip(reversed(network.layers), reversed(inputs)):
        gradient = gradient @ layer.weight
        norms.append(gradient.norm(dim=1))
        # <paper2code name="gradient through tanh">
        gradient = gradient * (1 - activation**2)
        # </paper2code name="gradient through tanh">
    return torch.stack(norms[::-1], dim=1)
    # </paper2code name="gradient norms by layer">
