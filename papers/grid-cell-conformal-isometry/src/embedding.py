"""Position embedding: a vector of grid-cell activities for every place of a square arena."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class PositionEmbedding(nn.Module):
    """Codes stored at the points of a lattice; between the points they are interpolated.

    Args:
        dim: number of cells d, the length of a code.
        size: lattice points per axis, at least 2; the outermost ones lie on the walls.
        side: side length of the arena [0, side] x [0, side].
        generator: randomness of the initial codes.

    Attributes:
        table: (size, size, d); ``table[i, j]`` is the code at the place ``(i * spacing, j * spacing)``.
    """

    def __init__(
        self, dim: int, size: int, side: float = 1.0, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.dim, self.size, self.side = dim, size, side
        codes = torch.rand(size, size, dim, generator=generator)
        self.table = nn.Parameter(codes / codes.norm(dim=-1, keepdim=True))

    @property
    def spacing(self) -> float:
        """Distance of neighbouring lattice points."""
        return self.side / (self.size - 1)

    def forward(self, places: Tensor) -> Tensor:
        """Codes at arbitrary places by bilinear interpolation.

        Args:
            places: (..., 2) in [0, side], walls included.

        Returns:
            (..., d), differentiable with respect to the table and to the places.

        Raises:
            ValueError: a coordinate is outside of the arena or NaN.
        """
        # <paper2code name="bilinear look-up between lattice points">
        if not ((places >= 0) & (places <= self.side)).all():
            raise ValueError("a place is outside of the arena")
        scaled = places / self.spacing  # (..., 2), in lattice units
        corner = scaled.floor().clamp(max=self.size - 2)
        share = scaled - corner  # (..., 2) in [0, 1]
        i, j = corner.long().unbind(dim=-1)
        a, b = share.unsqueeze(-1).unbind(dim=-2)  # (..., 1) each
        return (
            (1 - a) * (1 - b) * self.table[i, j]
            + a * (1 - b) * self.table[i + 1, j]
            + (1 - a) * b * self.table[i, j + 1]
            + a * b * self.table[i + 1, j + 1]
        )
        # </paper2code name="bilinear look-up between lattice points">

    @torch.no_grad()
    def project_(self) -> None:
        """Make all codes of the table non-negative and of length 1, in place.

        A code with nothing positive in it becomes the one with all entries equal.
        """
        # <paper2code name="projection onto non-negative unit vectors">
        self.table.clamp_(min=0)
        largest = self.table.amax(dim=-1, keepdim=True)
        scaled = self.table / largest  # whose squares are not too small
        flat = torch.full_like(self.table, 1 / math.sqrt(self.dim))
        unit = scaled / scaled.norm(dim=-1, keepdim=True)
        self.table.copy_(torch.where(largest > 0, unit, flat))
        # </paper2code name="projection onto non-negative unit vectors">
