"""Generating images: a causal model writes the concept tokens one after the other."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


@torch.no_grad()
def write_tokens(
    model: Callable[[Tensor, Tensor], Tensor],
    sampler: Callable[[Tensor, Tensor], Tensor],
    labels: Tensor,
    null_label: int,
    noise: Tensor,
    guidance: float = 1.0,
    prefix: Tensor | None = None,
) -> Tensor:
    """Write K tokens for each label.

    Args:
        model: tokens so far (B', t, d) and labels (B',) to states (B', t + 1, W); the last state is
            the one that the next token is made from. It is called once for each new token.
        sampler: state (B', W) and noise (B', d) to token (B', d).
        labels: (B,), int64.
        null_label: stands for no label.
        noise: (B, K, d): ``noise[:, t]`` makes token t.
        guidance: w; 1 means none. The strength rises linearly over the sequence, up to w at the
            last token.
        prefix: (B, t0, d), t0 <= K: first tokens that are given; None: none.

    Returns:
        (B, K, d), the prefix included.
    """
    # <paper2code name="writing tokens under rising guidance">
    batch, length, _ = noise.shape
    tokens = noise[:, :0] if prefix is None else prefix
    guided = guidance != 1
    if guided:
        labels = torch.cat([labels, torch.full_like(labels, null_label)])
    for t in range(tokens.shape[-2], length):
        fresh = noise[:, t]
        if guided:
            states = model(torch.cat([tokens, tokens]), labels)[:, -1]
            told, untold = sampler(states, torch.cat([fresh, fresh])).split(batch)
            strength = 1 + (guidance - 1) * (t + 1) / length
            token = untold + strength * (told - untold)
        else:
            token = sampler(model(tokens, labels)[:, -1], fresh)
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens
    # </paper2code name="writing tokens under rising guidance">
