"""Autoregressive generation with injected uniform numbers, so that a text can be made again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from distribution import SamplerSettings, draw, next_token_distribution


class Generation(NamedTuple):
    """A batch of texts; S is the number of steps that were taken.

    Attributes:
        tokens: (B, T + S): the prompts, the new tokens, padding.
        lengths: (B,), int64: new tokens per row, the end token included, padding not.
        log_probs: (B, S): log-probability of each new token under the model, 0 for padding.
    """

    tokens: Tensor
    lengths: Tensor
    log_probs: Tensor

    def coherence(self) -> Tensor:
        """(B,): mean log-probability of a row's new tokens."""
        return self.log_probs.sum(dim=1) / self.lengths


@torch.no_grad()
def generate(
    model: Callable[[Tensor], Tensor],
    prompts: Tensor,
    settings: SamplerSettings,
    uniforms: Tensor,
    end: int,
    padding: int,
    min_new_tokens: int = 0,
) -> Generation:
    """Continue ``prompts`` until every row has drawn ``end``, or the uniform numbers are used up.

    Args:
        model: tokens (B, t) to logits (B, t, V).
        prompts: (B, T), int64.
        settings: how to sample.
        uniforms: (B, N): the number that row b uses at step n.
        end: the token that ends a text.
        padding: what follows ``end`` in a row, while other rows go on.
        min_new_tokens: ``end`` cannot be among the first so many new tokens.
    """
    # <paper2code name="generation loop">
    batch, limit = uniforms.shape
    tokens = prompts
    lengths = torch.zeros(batch, dtype=torch.long)
    log_probs = torch.empty(batch, limit)
    finished = torch.zeros(batch, dtype=torch.bool)
    for step in range(limit):
        logits = model(tokens)[:, -1]  # (B, V)
        allowed = logits.clone()
        if step < min_new_tokens:
            allowed[:, end] = -math.inf
        drawn = draw(next_token_distribution(allowed, settings), uniforms[:, step])  # (B,)
        surprise = F.cross_entropy(logits, drawn, reduction="none")
        log_probs[:, step] = torch.where(finished, 0.0, -surprise)
        drawn = torch.where(finished, padding, drawn)
        tokens = torch.column_stack([tokens, drawn])
        lengths += ~finished
        finished = finished | (drawn == end)
        if finished.all():
            break
    return Generation(tokens, lengths, log_probs[:, : lengths.max()])
    # </paper2code name="generation loop">
