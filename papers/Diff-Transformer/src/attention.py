"""Multi-head differential attention.

Shapes: B batch, T new tokens, S all tokens seen (S = T without a cache), D width, h heads, g
key-value heads, d = D / (2 h).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from parts import head_norm, initial_lambda, rotate

Cache = tuple[Tensor, Tensor]


class DifferentialAttention(nn.Module):
    """Attention with the difference of two softmax maps.

    Args:
        width: D.
        heads: h.
        layer: 1 for the first layer.
        kv_heads: g; a divisor of ``heads``, by default as many.
    """

    def __init__(self, width: int, heads: int, layer: int, kv_heads: int | None = None) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, heads if kv_heads is None else kv_heads
        if width % (4 * heads) or heads % self.kv_heads:
            raise ValueError(f"no {heads} heads with {kv_heads} for keys in a width of {width}")
        self.size = width // (2 * heads)  # d
        self.start = initial_lambda(layer)
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(width, 2 * self.kv_heads * self.size, bias=False)
        self.to_v = nn.Linear(width, 2 * self.kv_heads * self.size, bias=False)
        self.to_out = nn.Linear(width, width, bias=False)
        self.gain = nn.Parameter(torch.ones(2 * self.size))
        for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
            self.register_parameter(name, nn.Parameter(0.1 * torch.randn(self.size)))

    def lambda_now(self) -> Tensor:
        """The factor of the second map, a scalar."""
        # <paper2code name="lambda reparametrized">
        plus = torch.exp(self.lambda_q1 @ self.lambda_k1)
        minus = torch.exp(self.lambda_q2 @ self.lambda_k2)
        return plus - minus + self.start
        # </paper2code name="lambda reparametrized">

    def maps(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Differential attention maps; the queries are the last T of S tokens.

        Args:
            queries: (B, T, 2 h, d).
            keys: (B, S, 2 h, d).

        Returns:
            (B, h, T, S).
        """
        # <paper2code name="difference of two softmax maps">
        _, steps, _, size = queries.shape
        _, seen, _, _ = keys.shape
        scores = torch.einsum("bthd,bshd->bhts", queries, keys) / math.sqrt(size)
        future = torch.ones(steps, seen, dtype=torch.bool).triu(seen - steps + 1)
        weights = scores.masked_fill(future, -math.inf).softmax(dim=-1)
        # <paper2code name="noise canceled">
        signal, noise = weights.unflatten(1, (self.heads, 2)).unbind(2)
        return signal - self.lambda_now() * noise
        # </paper2code name="noise canceled">
        # </paper2code name="difference of two softmax maps">

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        """Attend to the cached tokens and to those in ``x``.

        Args:
            x: (B, T, D).
            cache: keys (B, P, 2 g, d) and values (B, P, g, 2 d) of P earlier tokens.

        Returns:
            (B, T, D), and the cache of all P + T tokens.
        """
        # <paper2code name="multi-head differential attention">
        batch, steps, _ = x.shape
        past = 0 if cache is None else cache[0].shape[1]
        positions = torch.arange(past, past + steps)
        queries = self.to_q(x).reshape(batch, steps, 2 * self.heads, self.size)
        keys = self.to_k(x).reshape(batch, steps, 2 * self.kv_heads, self.size)
        values = self.to_v(x).reshape(batch, steps, self.kv_heads, 2 * self.size)
        queries, keys = rotate(queries, positions), rotate(keys, positions)
        if cache is not None:
            keys = torch.cat([cache[0], keys], dim=1)
            values = torch.cat([cache[1], values], dim=1)
        # <paper2code name="keys and values shared by groups">
        group = self.heads // self.kv_heads
        pairs = keys.unflatten(2, (self.kv_heads, 2))  # (B, S, g, 2, d)
        all_keys = pairs.repeat_interleave(group, dim=2).flatten(2, 3)
        all_values = values.repeat_interleave(group, dim=2)  # (B, S, h, 2 d)
        # </paper2code name="keys and values shared by groups">
        mixed = torch.einsum("bhts,bshc->bthc", self.maps(queries, all_keys), all_values)
        mixed = head_norm(mixed, self.gain) * (1 - self.start)
        return self.to_out(mixed.reshape(x.shape)), (keys, values)
        # </paper2code name="multi-head differential attention">
