"""A decoder-only language model of differential attention."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from attention import Cache, DifferentialAttention
from parts import SwiGLU


class Layer(nn.Module):
    """Attention and feed-forward, with an RMS normalization before each and a bypass around it."""

    def __init__(self, width: int, heads: int, number: int, kv_heads: int | None = None) -> None:
        super().__init__()
        self.norm_1 = nn.RMSNorm(width, eps=1e-5)
        self.attention = DifferentialAttention(width, heads, number, kv_heads)
        self.norm_2 = nn.RMSNorm(width, eps=1e-5)
        self.feed_forward = SwiGLU(width, 2 * width)

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        mixed, cache = self.attention(self.norm_1(x), cache)
        x = x + mixed
        return x + self.feed_forward(self.norm_2(x)), cache


class Decoder(nn.Module):
    """Tokens to logits."""

    def __init__(
        self, vocabulary: int, width: int, heads: int, depth: int, kv_heads: int | None = None
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, heads, n + 1, kv_heads) for n in range(depth))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(
        self, tokens: Tensor, caches: list[Cache] | None = None
    ) -> tuple[Tensor, list[Cache]]:
        """Logits (B, T, V) of new tokens (B, T), and the caches of all layers."""
        x = self.embedding(tokens)
        kept = []
        for number, layer in enumerate(self.layers):
            x, cache = layer(x, None if caches is None else caches[number])
            kept.append(cache)
        return self.head(self.norm(x)), kept


def language_loss(logits: Tensor, tokens: Tensor, ignored: int) -> Tensor:
    """Mean next-token loss.

    Args:
        logits: (B, T, V).
        tokens: (B, T), int64: what the logits were computed from.
        ignored: a token that is never a target.

    Returns:
        A scalar; 0 if there is no target.
    """
    targets = tokens[:, 1:]
    counted = targets != ignored
    scores = logits[:, :-1].log_softmax(dim=2)
    chosen = scores.gather(2, targets[:, :, None]).squeeze(2)
    return -chosen[counted].sum() / counted.sum().clamp(min=1)


@torch.no_grad()
def continue_greedily(
    model: Callable[[Tensor, list[Cache] | None], tuple[Tensor, list[Cache]]],
    prompts: Tensor,
    count: int,
    end: int,
) -> Tensor:
    """Append the most probable tokens, one at a time.

    Args:
        model: new tokens (B, T) and caches to logits (B, T, V) and caches, as ``Decoder``.
        prompts: (B, T), int64, all of one length.
        count: how many tokens to append at most.
        end: the token that ends a text; it also fills up texts that have ended.

    Returns:
        (B, T + steps), int64.

    Raises:
        ValueError: ``count`` is negative, or the prompts are empty.
    """
    # <paper2code name="greedy decoding with caches">
    batch, length = prompts.shape
    if count < 0 or length < 1:
        raise ValueError(f"cannot append {count} tokens to prompts of {length}")
    tokens, fresh, caches = prompts, prompts, None
    finished = torch.zeros(batch, dtype=torch.bool)
    for _ in range(count):
        logits, caches = model(fresh, caches)
        # <paper2code name="next tokens">
        best = logits[:, -1].argmax(dim=1)
        best = torch.where(finished, end, best)
        finished = finished | (best == end)
        # </paper2code name="next tokens">
        fresh = best[:, None]
        tokens = torch.cat([tokens, fresh], dim=1)
        if finished.all():
            break
    return tokens
    # </paper2code name="greedy decoding with caches">
