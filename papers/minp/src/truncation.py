"""Truncation: which tokens may be sampled next.

Every filter maps logits (..., V) to logits of the same shape and dtype: removed tokens get
``filter_value``, all others keep their logit. Leading dimensions are independent of each other.
Inputs are never changed in place. Tokens that a filter cannot tell apart share their fate.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def remove_tokens(
    logits: Tensor,
    remove: Tensor,
    scores: Tensor,
    min_tokens_to_keep: int,
    filter_value: float,
) -> Tensor:
    """Give ``filter_value`` to the tokens in ``remove``, except for the best ones.

    Args:
        logits: (..., V).
        remove: (..., V), bool: what a filter wants to remove.
        scores: (..., V): how much a filter wants a token; the best ones stay in any case.
        min_tokens_to_keep: how many stay at least.
        filter_value: the logit of a removed token.

    Raises:
        ValueError: ``min_tokens_to_keep`` is less than 1.
    """
    # <paper2code name="removal that spares the best tokens">
    if min_tokens_to_keep < 1:
        raise ValueError(f"min_tokens_to_keep must be at least 1, not {min_tokens_to_keep}")
    spared = min(min_tokens_to_keep, logits.shape[-1])
    weakest = scores.topk(spared).values[..., -1:]  # (..., 1)
    return logits.masked_fill(remove & (scores < weakest), filter_value)
    # </paper2code name="removal that spares the best tokens">


def min_p_filter(
    logits: Tensor,
    p_base: float,
    min_tokens_to_keep: int = 1,
    filter_value: float = -math.inf,
) -> Tensor:
    """Min-p: keep what is probable enough in comparison with the most probable token.

    Raises:
        ValueError: ``p_base`` is not in [0, 1].
    """
    # <paper2code name="min-p truncation">
    if not 0.0 <= p_base <= 1.0:
        raise ValueError(f"p_base must be in [0, 1], not {p_base}")
    probs = logits.softmax(dim=-1)
    # <paper2code name="threshold scaled by the top probability">
    threshold = p_base * probs.amax(dim=-1, keepdim=True)  # (..., 1)
    # </paper2code name="threshold scaled by the top probability">
    return remove_tokens(logits, probs < threshold, logits, min_tokens_to_keep, filter_value)
    # </paper2code name="min-p truncation">


def top_p_filter(
    logits: Tensor,
    top_p: float,
    min_tokens_to_keep: int = 1,
    filter_value: float = -math.inf,
) -> Tensor:
    """Nucleus sampling: keep the fewest most probable tokens that hold the mass ``top_p``.

    Raises:
        ValueError: ``top_p`` is not in (0, 1].
    """
    # <paper2code name="top-p truncation">
    if not 0.0 < top_p <= 1.0:
        raise ValueError(f"top_p must be in (0, 1], not {top_p}")
    probs = logits.softmax(dim=-1)
    ranked = probs.sort(descending=True).values
    ahead = ranked.cumsum(dim=-1) - ranked  # mass of the ranks above
    nucleus = (ahead < top_p).sum(dim=-1, keepdim=True)  # (..., 1), at least 1
    smallest = ranked.gather(-1, nucleus - 1)
    return remove_tokens(logits, probs < smallest, logits, min_tokens_to_keep, filter_value)
    # </paper2code name="top-p truncation">


def typical_filter(
    logits: Tensor,
    typical_p: float,
    min_tokens_to_keep: int = 1,
    filter_value: float = -math.inf,
) -> Tensor:
    """Locally typical sampling: keep tokens whose information is close to the expected one.

    Raises:
        ValueError: ``typical_p`` is not in (0, 1].
    """
    # <paper2code name="locally typical truncation">
    if not 0.0 < typical_p <= 1.0:
        raise ValueError(f"typical_p must be in (0, 1], not {typical_p}")
    log_probs = logits.log_softmax(dim=-1)
    probs = log_probs.exp()
    entropy = torch.special.entr(probs).sum(dim=-1, keepdim=True)
    deviation = (log_probs + entropy).abs()
    ordered, order = deviation.sort()
    reached = probs.gather(-1, order).cumsum(dim=-1)
    full = torch.zeros_like(reached, dtype=torch.bool)  # ranks behind enough mass
    full[..., 1:] = reached[..., :-1] >= typical_p
    farthest = ordered.masked_fill(full, -math.inf).amax(dim=-1, keepdim=True)
    remove = deviation > farthest
    return remove_tokens(logits, remove, -deviation, min_tokens_to_keep, filter_value)
    # </paper2code name="locally typical truncation">


def top_k_filter(
    logits: Tensor,
    top_k: int,
    min_tokens_to_keep: int = 1,
    filter_value: float = -math.inf,
) -> Tensor:
    """Keep the ``top_k`` most probable tokens, and any that are as probable as the last of them.

    Raises:
        ValueError: ``top_k`` or ``min_tokens_to_keep`` is less than 1.
    """
    if min(top_k, min_tokens_to_keep) < 1:
        raise ValueError("top_k and min_tokens_to_keep must be at least 1")
    everything = torch.ones_like(logits, dtype=torch.bool)
    keep = max(top_k, min_tokens_to_keep)
    return remove_tokens(logits, everything, logits, keep, filter_value)


def epsilon_filter(
    logits: Tensor,
    epsilon: float,
    min_tokens_to_keep: int = 1,
    filter_value: float = -math.inf,
) -> Tensor:
    """Epsilon sampling: one fixed threshold, however sure the model is."""
    remove = logits.softmax(dim=-1) < epsilon
    return remove_tokens(logits, remove, logits, min_tokens_to_keep, filter_value)


def eta_filter(
    logits: Tensor,
    epsilon: float,
    min_tokens_to_keep: int = 1,
    filter_value: float = -math.inf,
) -> Tensor:
    """Eta sampling: the threshold falls where the distribution is flat."""
    distribution = torch.distributions.Categorical(logits=logits, validate_args=False)
    flatness = distribution.entropy().unsqueeze(-1)
    eta = torch.clamp(math.sqrt(epsilon) * torch.exp(-flatness), max=epsilon)
    remove = distribution.probs < eta
    return remove_tokens(logits, remove, logits, min_tokens_to_keep, filter_value)
