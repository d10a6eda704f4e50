"""The generators of all levels but the last: from patches and conditions to conditions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from patches import with_neighbours
from transformer import Transformer


class Level(nn.Module):
    """What causal and masked levels have in common.

    Args:
        size: side of the images of this level.
        patch: side of the patches, that is of the images of the next level.
        outer: width of the conditions that it gets.
        width: width of the conditions that it gives.
        values: V: pixels are integers from 0 to V - 1.
    """

    causal: bool

    def __init__(
        self, size: int, patch: int, outer: int, width: int, depth: int, heads: int, values: int
    ) -> None:
        super().__init__()
        self.patch = patch
        self.rows = size // patch
        self.values = values
        self.project = nn.Linear(outer, width)
        self.embed = nn.Linear(3 * patch * patch, width)
        self.position = nn.Parameter(0.02 * torch.randn(self.rows**2, width))
        self.condition_position = nn.Parameter(0.02 * torch.randn(5, width))
        self.mask_token = nn.Parameter(0.02 * torch.randn(width))
        self.transformer = Transformer(width, depth, heads)

    def tokens(self, patches: Tensor) -> Tensor:
        """Patches (B, N, 3, p, p) of integers to tokens (B, N, D), without positions."""
        scaled = 2 * patches.to(self.embed.weight.dtype) / (self.values - 1) - 1
        return self.embed(scaled.flatten(2))


class CausalLevel(Level):
    """Makes patches row by row; each is told the ones before it."""

    causal = True

    def forward(self, patches: Tensor, condition: Tensor) -> Tensor:
        """Conditions for the next level.

        Args:
            patches: (B, N, 3, p, p), int64.
            condition: (B, 5, outer).

        Returns:
            (B, N, 5, width): what patch i is made from depends on the patches before it only.
        """
        head = self.project(condition) + self.condition_position
        body = self.tokens(patches) + self.position
        seen = self.transformer(torch.cat([head, body[:, :-1]], dim=1), causal=True)
        return with_neighbours(seen[:, 4:], self.rows, self.causal)


class MaskedLevel(Level):
    """Makes patches in any order; hidden ones are told all that are not."""

    causal = False

    def forward(self, patches: Tensor, condition: Tensor, hidden: Tensor) -> Tensor:
        """Conditions for the next level.

        Args:
            patches: (B, N, 3, p, p), int64; what hidden ones hold does not matter.
            condition: (B, 5, outer).
            hidden: (B, N), bool.

        Returns:
            (B, N, 5, width).
        """
        # <paper2code name="masked level">
        head = self.project(condition) + self.condition_position
        body = torch.where(hidden[..., None], self.mask_token, self.tokens(patches))
        joined = torch.cat([head, body + self.position], dim=1)
        seen = self.transformer(joined, causal=False)
        return with_neighbours(seen[:, 5:], self.rows, self.causal)
        # </paper2code name="masked level">
