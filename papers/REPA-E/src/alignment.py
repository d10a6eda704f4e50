"""Representation alignment: hidden states of the transformer against features of a frozen encoder."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def alignment_loss(projected: list[Tensor], features: list[Tensor]) -> Tensor:
    """Minus the cosine similarity of tokens, on average.

    Args:
        projected: for each frozen encoder, (B, T, D) from the transformer, already projected.
        features: for each frozen encoder, (B, T, D); no gradient flows into them.

    Returns:
        (B,): mean over tokens and encoders.

    Raises:
        ValueError: not as many of one as of the other, none at all, or shapes that differ.
    """
    # <paper2code name="alignment loss">
    if not features or len(projected) != len(features):
        raise ValueError(f"{len(projected)} projections for {len(features)} encoders")
    losses = []
    for ours, theirs in zip(projected, features):
        if ours.shape != theirs.shape:
            raise ValueError(f"projection {tuple(ours.shape)}, features {tuple(theirs.shape)}")
        ours, theirs = F.normalize(ours, dim=2), F.normalize(theirs.detach(), dim=2)
        losses.append(-torch.einsum("btd,btd->b", ours, theirs) / ours.shape[1])
    return torch.stack(losses).mean(dim=0)
    # </paper2code name="alignment loss">
