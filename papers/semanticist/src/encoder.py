"""The tokenizer's encoder: from an image to an ordered sequence of concept tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from layers import Block


def concept_mask(patches: int, concepts: int) -> Tensor:
    """Who may look at whom, (N + K, N + K) bool; rows look at columns, patches come first.

    Patches see all patches and no concept. A concept sees all patches, itself, and the concepts
    before it.
    """
    # <paper2code name="causal mask of the concepts">
    place = torch.arange(patches + concepts)
    return (place < patches) | (place <= place[:, None])
    # </paper2code name="causal mask of the concepts">


class ConceptEncoder(nn.Module):
    """A vision transformer with learned queries behind the patches.

    Args:
        image: side length of the square images.
        patch: side length of a patch; divides ``image``.
        channels: of the images.
        width, heads, depth: of the transformer.
        concepts: K, how many tokens an image becomes.
        dim: d, the length of a token.
    """

    def __init__(
        self,
        image: int,
        patch: int,
        channels: int,
        width: int,
        heads: int,
        depth: int,
        concepts: int,
        dim: int,
    ) -> None:
        super().__init__()
        self.image, self.concepts, self.dim = image, concepts, dim
        self.patches = (image // patch) ** 2
        self.embed = nn.Conv2d(channels, width, patch, stride=patch)
        self.positions = nn.Parameter(0.02 * torch.randn(self.patches, width))
        self.queries = nn.Parameter(0.02 * torch.randn(concepts, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, dim)

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, C, H, H) to concept tokens (B, K, d), each with mean 0 and variance 1.

        Raises:
            ValueError: the images do not have the size of the encoder.
        """
        # <paper2code name="encoding into ordered tokens">
        batch, _, height, width = images.shape
        if height != self.image or width != self.image:
            raise ValueError(f"images of side {self.image} expected, not {tuple(images.shape)}")
        patches = torch.einsum("bwij->bijw", self.embed(images))
        patches = patches.reshape(batch, self.patches, -1) + self.positions  # (B, N, W)
        queries = self.queries.expand(batch, -1, -1)
        x = torch.cat([patches, queries], dim=1)
        mask = concept_mask(self.patches, self.concepts)
        for block in self.blocks:
            x = block(x, mask)
        # <paper2code name="read-out of normalized tokens">
        tokens = self.out(self.norm(x[:, self.patches :]))  # (B, K, d)
        return F.layer_norm(tokens, (self.dim,), eps=1e-6)
        # </paper2code name="read-out of normalized tokens">
        # </paper2code name="encoding into ordered tokens">
