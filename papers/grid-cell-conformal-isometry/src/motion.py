"""Motion models: how a code changes when the agent moves by a displacement."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def to_polar(displacement: Tensor) -> tuple[Tensor, Tensor]:
    """Length (...,) and heading (...,) in radians of displacements (..., 2)."""
    dx, dy = displacement.unbind(dim=-1)
    return torch.hypot(dx, dy), torch.atan2(dy, dx)


class DirectionTable(nn.Module):
    """Something of a given shape for every heading, stored at equally spaced headings.

    Args:
        headings: how many are stored; number k belongs to the angle 2 pi k / headings.
        shape: the shape of one entry.
        std: standard deviation of the initial entries.
        generator: their randomness.
    """

    def __init__(
        self,
        headings: int,
        shape: tuple[int, ...],
        std: float = 0.1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.headings = headings
        self.entries = nn.Parameter(std * torch.randn(headings, *shape, generator=generator))

    def forward(self, angle: Tensor) -> Tensor:
        """The entries (..., *shape) at angles (...,), interpolated linearly around the circle."""
        turns = angle / (2 * math.pi) * self.headings
        low = turns.floor()
        share = (turns - low).reshape(angle.shape + (1,) * (self.entries.dim() - 1))
        first = low.long() % self.headings
        second = (first + 1) % self.headings
        return (1 - share) * self.entries[first] + share * self.entries[second]


class LinearMotion(nn.Module):
    """v(x + dx) = exp(r B(theta)) v(x) with skew-symmetric B, by a truncated power series.

    Args:
        dim: length of a code.
        headings: stored headings of the direction table.
        order: the highest power of the series that is kept.
        generator: randomness of the initial weights.
    """

    def __init__(
        self,
        dim: int,
        headings: int,
        order: int = 2,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.order = order
        self.weights = DirectionTable(headings, (dim, dim), generator=generator)

    def forward(self, codes: Tensor, displacement: Tensor) -> Tensor:
        """Codes (..., d) after the displacements (..., 2) of the same leading shape."""
        # <paper2code name="motion by a rotation series">
        length, angle = to_polar(displacement)
        raw = self.weights(angle)  # (..., d, d)
        # <paper2code name="antisymmetric generator">
        generator = (raw - raw.mT) / 2
        # </paper2code name="antisymmetric generator">
        term, total = codes, codes
        for power in range(1, self.order + 1):
            term = torch.einsum("...ij,...j->...i", generator, term) * length.unsqueeze(-1) / power
            total = total + term
        return total
        # </paper2code name="motion by a rotation series">


class AdditiveMotion(nn.Module):
    """v(x + dx) = relu(A v + r b(theta) + c): the displacement enters as an input of its own."""

    def __init__(
        self, dim: int, headings: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.recurrent = nn.Parameter(torch.eye(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.weights = DirectionTable(headings, (dim,), generator=generator)

    def forward(self, codes: Tensor, displacement: Tensor) -> Tensor:
        """Codes (..., d) after the displacements (..., 2) of the same leading shape."""
        length, angle = to_polar(displacement)
        drive = length.unsqueeze(-1) * self.weights(angle)
        return torch.relu(codes @ self.recurrent.T + drive + self.bias)


class MultiplicativeMotion(nn.Module):
    """v(x + dx) = relu(A v + r B(theta) v + c): the displacement changes the recurrent weights."""

    def __init__(
        self, dim: int, headings: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.recurrent = nn.Parameter(torch.eye(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.weights = DirectionTable(headings, (dim, dim), generator=generator)

    def forward(self, codes: Tensor, displacement: Tensor) -> Tensor:
        """Codes (..., d) after the displacements (..., 2) of the same leading shape."""
        length, angle = to_polar(displacement)
        total = self.recurrent + length[..., None, None] * self.weights(angle)
        return torch.relu((total @ codes.unsqueeze(-1)).squeeze(-1) + self.bias)
