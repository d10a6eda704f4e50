"""Physics-informed networks: the Burgers equation, its loss, and a training loop."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Points(NamedTuple):
    """Where a solution is looked at; a point is (t, x).

    Attributes:
        inside: (N, 2): where the equation must hold.
        known: (M, 2): initial and boundary points.
        values: (M, 1): the solution at the known points.
    """

    inside: Tensor
    known: Tensor
    values: Tensor


def burgers_residual(network: nn.Module, points: Tensor, viscosity: float) -> Tensor:
    """What the Burgers equation leaves over, shape (N, 1); parameters can be differentiated through it.

    Args:
        network: (N, 2) to (N, 1); each output depends on its own point only.
        points: (N, 2): t and x; neither changed nor given a gradient.
        viscosity: of the fluid.
    """
    # <paper2code name="burgers residual">
    points = points.detach().clone().requires_grad_(True)
    u = network(points)
    (slope,) = torch.autograd.grad(u.sum(), points, create_graph=True)  # (N, 2)
    u_t, u_x = slope.T.unsqueeze(-1)
    (bend,) = torch.autograd.grad(u_x.sum(), points, create_graph=True)
    _, u_xx = bend.T.unsqueeze(-1)
    return u_t + u * u_x - viscosity * u_xx
    # </paper2code name="burgers residual">


def physics_loss(
    network: nn.Module, points: Points, viscosity: float, weight: float = 1.0
) -> Tensor:
    """The loss of a physics-informed network, a tensor without dimensions; ``weight`` is for the data."""
    # <paper2code name="physics-informed loss">
    residual = burgers_residual(network, points.inside, viscosity)
    error = network(points.known) - points.values
    return residual.square().mean() + weight * error.square().mean()
    # </paper2code name="physics-informed loss">


def train(
    network: nn.Module,
    points: Points,
    viscosity: float,
    steps: int,
    rate: float = 1e-3,
    max_norm: float = math.inf,
) -> Tensor:
    """Train a network in place with Adam and leave it with the best parameters that were seen.

    Args:
        network: (N, 2) to (N, 1).
        points: all of them are used in each step.
        viscosity: of the fluid.
        steps: at most so many steps, at least 0.
        rate: learning rate of Adam, whose other settings are torch's defaults.
        max_norm: larger gradients (norm over all parameters) are scaled down to this norm.

    Returns:
        The losses, shape (steps + 1,) or less: before each step, and after the last one.

    Raises:
        ValueError: ``steps`` is negative, or ``max_norm`` is not positive.
    """
    # <paper2code name="training loop">
    if steps < 0 or not max_norm > 0:
        raise ValueError("steps must not be negative, and max_norm must be positive")
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    losses = []
    best, kept = math.inf, None
    for step in range(steps + 1):
        optimizer.zero_grad()
        loss = physics_loss(network, points, viscosity)
        losses.append(loss.detach())
        if not torch.isfinite(loss):
            break
        if loss.item() < best:
            best = loss.item()
            kept = [parameter.detach().clone() for parameter in network.parameters()]
        if step < steps:
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), max_norm)
            optimizer.step()
    if kept is not None:
        with torch.no_grad():
            for parameter, value in zip(network.parameters(), kept):
                parameter.copy_(value)
    return torch.stack(losses)
    # </paper2code name="training loop">
