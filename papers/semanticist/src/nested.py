"""Nested classifier-free guidance: the decoder learns to work with any number of first tokens."""

from __future__ import annotations

import torch
from torch import Tensor


def keep_counts(uniforms: Tensor, concepts: int, drop: float) -> Tensor:
    """How many of the first tokens each image keeps in this step of training.

    Args:
        uniforms: (B, 2) in [0, 1): the first number decides how many, the second whether the image
            loses all of them.
        concepts: K.
        drop: the probability of losing all tokens.

    Returns:
        (B,), int64, from 0 to K.
    """
    # <paper2code name="random number of kept tokens">
    many, lucky = uniforms.T
    counts = 1 + (many * concepts).long()
    return torch.where(lucky < drop, 0, counts)
    # </paper2code name="random number of kept tokens">


def replace_tail(tokens: Tensor, counts: Tensor, null: Tensor) -> Tensor:
    """Put the null token in the place of all tokens but the first.

    Args:
        tokens: (B, K, d).
        counts: (B,), integers: how many tokens of each image stay.
        null: (d,).

    Raises:
        ValueError: a count is negative or larger than K.
    """
    # <paper2code name="null tokens in the tail">
    length = tokens.shape[-2]
    if ((counts < 0) | (counts > length)).any():
        raise ValueError(f"counts must be between 0 and {length}")
    stay = torch.arange(length) < counts[:, None]  # (B, K)
    return torch.where(stay[..., None], tokens, null)
    # </paper2code name="null tokens in the tail">
