"""Human comparisons of two images of one prompt, and batches of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Comparison(NamedTuple):
    """What one person said about two images.

    Attributes:
        prompt: number of the prompt.
        first: (C, H, W).
        second: (C, H, W).
        label: 1 if the first image is preferred, 0 if the second is, 0.5 if neither.
    """

    prompt: int
    first: Tensor
    second: Tensor
    label: float


class Pairs(NamedTuple):
    """A batch of B comparisons that somebody won.

    Attributes:
        prompts: (B,), int64.
        preferred: (B, C, H, W).
        rejected: (B, C, H, W).
    """

    prompts: Tensor
    preferred: Tensor
    rejected: Tensor


def collate(comparisons: Sequence[Comparison]) -> Pairs:
    """Turn comparisons into a batch, in their order, without those that nobody won.

    Raises:
        ValueError: a label is none of 0, 0.5 and 1, two images of a comparison differ in shape, or
            no comparison is left.
    """
    # <paper2code name="preferred and rejected images">
    prompts, preferred, rejected = [], [], []
    for prompt, first, second, label in comparisons:
        if label not in (0, 0.5, 1):
            raise ValueError(f"a label of {label}")
        if first.shape != second.shape:
            raise ValueError(f"images of {tuple(first.shape)} and {tuple(second.shape)}")
        if label == 0.5:
            continue
        prompts.append(prompt)
        preferred.append(first if label == 1 else second)
        rejected.append(second if label == 1 else first)
    if not prompts:
        raise ValueError("no comparison has a winner")
    return Pairs(torch.tensor(prompts), torch.stack(preferred), torch.stack(rejected))
    # </paper2code name="preferred and rejected images">


def with_dropped_prompts(prompts: Tensor, uniforms: Tensor, rate: float) -> Tensor:
    """Replace a prompt by the empty one, number 0, where its uniform number is below ``rate``."""
    return prompts.masked_fill(uniforms < rate, 0)
