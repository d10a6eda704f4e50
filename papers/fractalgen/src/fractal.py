"""The fractal: generators that call generators."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from levels import CausalLevel, MaskedLevel
from order import cosine_counts, masks_of_ratio, truncated_ratios
from patches import join, split
from pixels import PixelLevel


class Fractal(nn.Module):
    """A generative model of images of integers.

    Args:
        levels: from the outermost to the innermost; the patches of one are the images of the next, and
            those of the last are single pixels.
        pixel_level: makes the pixels.
        num_classes: of the images.
        outer: width of the conditions of the first level.
        steps: in how many steps a masked level makes its patches.
    """

    def __init__(
        self,
        levels: Sequence[CausalLevel | MaskedLevel],
        pixel_level: PixelLevel,
        num_classes: int,
        outer: int,
        steps: int,
    ) -> None:
        super().__init__()
        self.levels = nn.ModuleList(levels)
        self.pixel_level = pixel_level
        self.classes = nn.Embedding(num_classes + 1, outer)  # the last is "no class"
        self.steps = steps

    def condition(self, labels: Tensor) -> Tensor:
        """(B,) classes to the first level's conditions (B, 5, outer): five times the same."""
        return self.classes(labels)[:, None].expand(-1, 5, -1)

    def drop_labels(self, labels: Tensor, uniforms: Tensor, rate: float = 0.1) -> Tensor:
        """Replace labels by "no class" where the uniform number is below the rate, for guidance."""
        return torch.where(uniforms < rate, self.classes.num_embeddings - 1, labels)

    def loss(
        self, images: Tensor, condition: Tensor, generator: torch.Generator, depth: int = 0
    ) -> Tensor:
        """Negative log-likelihood in nats per value, over what is predicted.

        Args:
            images: (B, 3, s, s), int64, with s the size of the images at this depth.
            condition: (B, 5, width of the conditions at this depth).
            generator: for each masked level, outer ones first, two draws of float64: numbers (B, N) whose
                argsort gives the orders, and numbers (B,) for the ratios.
            depth: the number of the level; after the last one come pixels.

        Returns:
            (B,).
        """
        # <paper2code name="recursive loss">
        if depth == len(self.levels):
            return self.pixel_level.loss(images.flatten(1), condition)
        level, batch = self.levels[depth], len(images)
        patches = split(images, level.patch)  # (B, N, 3, p, p)
        if level.causal:
            # <paper2code name="loss of a causal level">
            inner = level(patches, condition).flatten(0, 1)
            losses = self.loss(patches.flatten(0, 1), inner, generator, depth + 1)
            return torch.stack([part.mean() for part in losses.chunk(batch)])
            # </paper2code name="loss of a causal level">
        # <paper2code name="loss of a masked level">
        shape = patches.shape[:2]
        orders = torch.rand(shape, generator=generator, dtype=torch.float64).argsort()
        numbers = torch.rand(batch, generator=generator, dtype=torch.float64)
        hidden = masks_of_ratio(orders, truncated_ratios(numbers))
        inner = level(patches, condition, hidden)[hidden]
        losses = self.loss(patches[hidden], inner, generator, depth + 1)
        parts = losses.split([int(row.sum()) for row in hidden])
        return torch.stack([part.mean() for part in parts])
        # </paper2code name="loss of a masked level">
        # </paper2code name="recursive loss">

    @torch.no_grad()
    def sample(
        self,
        condition: Tensor,
        generator: torch.Generator,
        temperature: float = 1.0,
        guidance: float = 1.0,
        depth: int = 0,
    ) -> Tensor:
        """Make images.

        Args:
            condition: (G, B, 5, width at this depth): G = 1, or G = 2 with conditions that know the class
                first and those that do not second.
            generator: a masked level draws its orders as in `loss`, then its patches, step by step; pixels
                draw (B, 3) numbers of float64.
            temperature: of the draws of pixels.
            guidance: strength of guidance at the end of the outermost level.
            depth: the number of the level.

        Returns:
            (B, 3, s, s), int64.
        """
        # <paper2code name="recursive sampling">
        groups, batch, *_ = condition.shape
        if depth == len(self.levels):
            uniforms = torch.rand(batch, 3, generator=generator, dtype=torch.float64)
            pixels = self.pixel_level.sample(condition, uniforms, temperature, guidance)
            return pixels[..., None, None]
        level = self.levels[depth]
        count = level.rows**2
        patches = torch.zeros(batch, count, 3, level.patch, level.patch, dtype=torch.long)
        hidden = torch.ones(batch, count, dtype=torch.bool)
        if level.causal:
            orders, counts = torch.arange(count).expand(batch, count), [1] * count
        else:
            numbers = torch.rand(batch, count, generator=generator, dtype=torch.float64)
            orders, counts = numbers.argsort(), cosine_counts(count, self.steps)
        known, everyone = 0, torch.arange(batch)[:, None]
        for made in counts:
            # <paper2code name="one step of a level">
            chosen = orders[:, known : known + made]  # (B, made)
            known += made
            given = (patches.repeat(groups, 1, 1, 1, 1), condition.flatten(0, 1))
            if not level.causal:
                given = (*given, hidden.repeat(groups, 1))
            inner = level(*given).unflatten(0, (groups, batch))
            inner = inner[:, everyone, chosen].flatten(1, 2)  # (G, B * made, 5, D)
            strength = 1 + (guidance - 1) * known / count if depth == 0 else guidance
            smaller = self.sample(inner, generator, temperature, strength, depth + 1)
            patches[everyone, chosen] = smaller.unflatten(0, (batch, made))
            hidden[everyone, chosen] = False
            # </paper2code name="one step of a level">
        return join(patches, level.rows)
        # </paper2code name="recursive sampling">


def bits_per_dimension(nats: Tensor) -> Tensor:
    """The usual unit of the likelihood of images, from nats per value: mean over the images."""
    return nats.mean() / math.log(2)
