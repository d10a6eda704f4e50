"""How the pool of min-p grows with temperature, without sampling."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def entry_temperatures(logits: Tensor, p_base: float) -> Tensor:
    """The temperature from which on min-p (after temperature) keeps each token.

    Args:
        logits: (..., V), of the model, at temperature 1.
        p_base: the base threshold.

    Returns:
        (..., V).

    Raises:
        ValueError: ``p_base`` is not strictly between 0 and 1.
    """
    # <paper2code name="temperature at which a token enters the pool">
    if not 0.0 < p_base < 1.0:
        raise ValueError(f"p_base must be strictly between 0 and 1, not {p_base}")
    gap = logits.amax(dim=-1, keepdim=True) - logits
    return gap / -logits.new_tensor(p_base).log()
    # </paper2code name="temperature at which a token enters the pool">


def pool_sizes(logits: Tensor, p_base: float, temperatures: Sequence[float]) -> Tensor:
    """How many tokens min-p keeps at each temperature: (..., len(temperatures))."""
    entry = entry_temperatures(logits, p_base)
    return torch.stack([(entry <= t).sum(dim=-1) for t in temperatures], dim=-1)
