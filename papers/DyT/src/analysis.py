"""Two measurements: how alpha follows the spread of activations, and how tanh-like a map is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dynamic_tanh import DynamicTanh


class AlphaAndSpread(NamedTuple):
    """One DyT layer: its alpha, and 1 / (standard deviation of what it is given)."""

    alpha: float
    inverse_std: float


@torch.no_grad()
def alpha_and_inverse_std(model: nn.Module, batches: Iterable[Tensor]) -> dict[str, AlphaAndSpread]:
    """Run ``model`` on ``batches`` and measure the inputs of its DyT layers.

    Returns:
        A record for each DyT layer that was called, by full dotted name.
    """
    # <paper2code name="alpha against inverse standard deviation">
    layers = {n: m for n, m in model.named_modules() if isinstance(m, DynamicTanh)}
    moments = {name: torch.zeros(3, dtype=torch.float64) for name in layers}

    def watch(name: str) -> torch.utils.hooks.RemovableHandle:
        def hook(module: nn.Module, args: tuple[Tensor, ...]) -> None:
            (x,) = args
            x = x.double()
            moments[name] += torch.stack([torch.ones_like(x).sum(), x.sum(), (x**2).sum()])

        return layers[name].register_forward_pre_hook(hook)

    handles = [watch(name) for name in layers]
    try:
        for batch in batches:
            model(batch)
    finally:
        for handle in handles:
            handle.remove()
    measured: dict[str, AlphaAndSpread] = {}
    for name, (count, total, squares) in moments.items():
        if count > 0:
            variance = squares / count - (total / count) ** 2
            measured[name] = AlphaAndSpread(layers[name].alpha.item(), variance.rsqrt().item())
    return measured
    # </paper2code name="alpha against inverse standard deviation">


class TanhFit(NamedTuple):
    """The scaled tanh ``scale * tanh(alpha * x)`` nearest to a map, and how much it explains."""

    alpha: float
    scale: float
    r_squared: float


def fit_scaled_tanh(
    x: Tensor,
    y: Tensor,
    low: float = 0.01,
    high: float = 100.0,
    points: int = 41,
    rounds: int = 4,
) -> TanhFit:
    """Fit ``scale * tanh(alpha * x)`` to ``y`` by least squares.

    Args:
        x: inputs of a layer, any shape.
        y: its outputs, element for element, the same shape.
        low: least alpha of the first search.
        high: greatest alpha of the first search.
        points: grid points per search.
        rounds: searches, each around the best point of the one before.

    Raises:
        ValueError: the shapes differ, or ``x`` is zero everywhere.
    """
    # <paper2code name="fit a scaled tanh">
    if x.shape != y.shape:
        raise ValueError("x and y must have the same shape")
    if not x.any():
        raise ValueError("x is zero everywhere")
    x, y = (values.double().flatten() for values in (x, y))
    first, last = math.log(low), math.log(high)
    for _ in range(rounds):
        step = (last - first) / (points - 1)
        grid = first + step * torch.arange(points, dtype=torch.float64)
        basis = torch.tanh(x[:, None] * grid.exp())  # (n, points)
        # <paper2code name="best scale for each alpha">
        scale = (y @ basis) / (basis**2).sum(0)
        loss = ((basis * scale - y[:, None]) ** 2).sum(0)
        # </paper2code name="best scale for each alpha">
        best = loss.argmin()
        first, last = grid[best] - step, grid[best] + step
    r_squared = 1 - loss[best] / ((y - y.mean()) ** 2).sum()
    return TanhFit(grid[best].exp().item(), scale[best].item(), r_squared.item())
    # </paper2code name="fit a scaled tanh">
