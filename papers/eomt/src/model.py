"""The Encoder-only Mask Transformer: queries that live in the last blocks of a plain ViT."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from structures import Prediction
from vit import Encoder


class Upscale(nn.Module):
    """Doubles the resolution of a feature map."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(width, width, kernel_size=2, stride=2)
        self.depthwise = nn.Conv2d(
            width, width, kernel_size=3, padding=1, groups=width, bias=False
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, D, h, w) to (B, D, 2h, 2w)."""
        x = self.depthwise(F.gelu(self.up(x)))
        return self.norm(x.movedim(1, -1)).movedim(-1, 1)


class EoMT(nn.Module):
    """Segments images.

    Args:
        encoder: the ViT.
        num_classes: C, without "no object".
        num_queries: K.
        num_joint_blocks: how many of the encoder's last blocks see the queries.
        num_upscales: how often the resolution of the patch features is doubled.

    Attributes:
        mask_probabilities: (joint blocks,): how probable masked attention is in each of them; a
            training loop sets them with `annealed_probabilities`.
    """

    def __init__(
        self,
        encoder: Encoder,
        num_classes: int,
        num_queries: int,
        num_joint_blocks: int,
        num_upscales: int,
    ) -> None:
        super().__init__()
        width = encoder.norm.weight.shape[0]
        self.encoder = encoder
        self.num_queries = num_queries
        self.num_joint_blocks = num_joint_blocks
        self.queries = nn.Parameter(torch.randn(num_queries, width))
        self.class_head = nn.Linear(width, num_classes + 1)
        self.mask_head = nn.Sequential(
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, width),
        )  # fmt: skip
        self.upscale = nn.Sequential(*(Upscale(width) for _ in range(num_upscales)))
        self.register_buffer("mask_probabilities", torch.ones(num_joint_blocks))

    def predict(self, tokens: Tensor) -> Prediction:
        """Read a prediction off the tokens (B, K + prefix + N, D) between any two blocks."""
        tokens = self.encoder.norm(tokens)
        queries = tokens[:, : self.num_queries]
        patches = tokens[:, self.num_queries + self.encoder.num_prefix :]
        features = self.upscale(patches.mT.unflatten(-1, self.encoder.grid))  # (B, D, h, w)
        masks = torch.einsum("bkd,bdhw->bkhw", self.mask_head(queries), features)
        return Prediction(self.class_head(queries), masks)

    def attention_mask(self, masks: Tensor, enabled: Tensor) -> Tensor:
        """Which token may look at which, by an intermediate prediction.

        Args:
            masks: (B, K, h, w): mask logits.
            enabled: (B, K), bool: for which queries attention is masked.

        Returns:
            (B, T, T), bool, with T = K + prefix + N: as `Attention` wants it.
        """
        # <paper2code name="masked attention from an intermediate prediction">
        batch, count = enabled.shape
        first = count + self.encoder.num_prefix
        length = first + self.encoder.position.shape[1]
        coarse = F.interpolate(masks, self.encoder.grid, mode="bilinear")
        inside = coarse.reshape(batch, count, -1) > 0  # (B, K, N)
        free = ~enabled | ~inside.any(dim=-1)
        allowed = torch.ones(batch, length, length, dtype=torch.bool)
        allowed[:, :count, first:] = inside | free[..., None]
        return allowed
        # </paper2code name="masked attention from an intermediate prediction">

    def forward(self, images: Tensor, uniforms: Tensor | None = None) -> list[Prediction]:
        """Segment images.

        Args:
            images: (B, 3, H, W).
            uniforms: (joint blocks, B, K): numbers in [0, 1) that decide where attention is masked, in
                training; None in inference.

        Returns:
            In training one prediction before each joint block, and in any case the final one, last.
        """
        # <paper2code name="forward pass of the encoder-only mask transformer">
        tokens = self.encoder.embed(images)
        split = len(self.encoder.blocks) - self.num_joint_blocks
        for block in self.encoder.blocks[:split]:
            tokens = block(tokens)
        queries = self.queries.expand(len(images), *self.queries.shape)
        tokens = torch.cat([queries, tokens], dim=1)
        predictions = []
        for index, block in enumerate(self.encoder.blocks[split:]):
            allowed = None
            if uniforms is not None:
                # <paper2code name="masking of one joint block">
                predictions.append(self.predict(tokens))
                enabled = uniforms[index] < self.mask_probabilities[index]
                allowed = self.attention_mask(predictions[-1].masks, enabled)
                # </paper2code name="masking of one joint block">
            tokens = block(tokens, allowed)
        return [*predictions, self.predict(tokens)]
        # </paper2code name="forward pass of the encoder-only mask transformer">
