"""Places and paths to train on, made from uniform numbers that are passed in."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def place_pairs(uniforms: Tensor, side: float, reach: float) -> tuple[Tensor, Tensor]:
    """Places and displacements (B, 2) with both ends inside of the arena.

    Args:
        uniforms: (B, 4) in [0, 1).
        side: side length of the arena.
        reach: the longest displacement, at most ``side``; uniform in the disc of this radius.
    """
    length = reach * uniforms[:, 0].sqrt()
    heading = 2 * math.pi * uniforms[:, 1]
    displacement = torch.stack([length * heading.cos(), length * heading.sin()], dim=-1)
    low = (-displacement).clamp(min=0)
    high = side - displacement.clamp(min=0)
    return low + uniforms[:, 2:] * (high - low), displacement


def random_walks(start: Tensor, turns: Tensor, speed: float, side: float) -> Tensor:
    """Paths (B, T + 1, 2) of constant speed whose heading changes by ``turns`` (B, T) radians.

    Steps that would leave the arena are cut off at the wall.
    """
    headings = turns.cumsum(dim=1)
    places = [start]
    for heading in headings.unbind(dim=1):
        step = speed * torch.stack([heading.cos(), heading.sin()], dim=-1)
        places.append((places[-1] + step).clamp(0, side))
    return torch.stack(places, dim=1)
