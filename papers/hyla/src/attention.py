"""Multi-head attention seen as a hypernetwork: scores along the heads configure a value network.

Shapes: B batch, T tokens, H heads, D width, C = D / H width of a head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

KINDS = ("softmax", "linear", "hyla")


def rms_head(scores: Tensor, eps: float = 1e-6) -> Tensor:
    """Divide the scores (B, H, T, T) of each query-key pair by their root mean square over heads."""
    # <paper2code name="normalization over heads">
    return scores * torch.rsqrt(scores.square().mean(dim=1, keepdim=True) + eps)
    # </paper2code name="normalization over heads">


class HypernetworkAttention(nn.Module):
    """Softmax attention, linear attention, or HYLA.

    Args:
        width: D, a multiple of ``heads``.
        heads: H.
        kind: one of KINDS.
    """

    def __init__(self, width: int, heads: int, kind: str = "hyla") -> None:
        super().__init__()
        if kind not in KINDS or width % heads:
            raise ValueError(f"no attention of kind {kind!r} with {heads} heads in {width}")
        self.kind = kind
        shape = (heads, width // heads, width)  # (H, C, D)
        for name in ("query", "key", "value", "out"):
            weight = nn.Parameter(torch.randn(shape) / math.sqrt(width))
            self.register_parameter(name, weight)

    def codes(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """The latent codes of all query-key pairs.

        Args:
            x: (B, T, D).
            mask: (T, T) or (B, T, T), bool: which query (row) may see which key (column).

        Returns:
            (B, H, T, T).

        Raises:
            ValueError: the mask has another shape.
        """
        # <paper2code name="latent codes">
        # <paper2code name="scores of queries and keys">
        queries = torch.einsum("btd,hcd->bhtc", x, self.query)
        keys = torch.einsum("btd,hcd->bhtc", x, self.key)
        _, width, _ = self.query.shape
        scores = torch.einsum("bhqc,bhkc->bhqk", queries, keys) / math.sqrt(width)
        # </paper2code name="scores of queries and keys">
        batch, steps, _ = x.shape
        if mask is None:
            mask = torch.ones(steps, steps, dtype=torch.bool)
        if mask.shape not in ((steps, steps), (batch, steps, steps)):
            raise ValueError(f"a mask of {tuple(mask.shape)} for {batch} x {steps} tokens")
        hidden = ~(mask if mask.dim() == 2 else mask[:, None])
        if self.kind == "softmax":
            scores = scores.masked_fill(hidden, -math.inf).softmax(dim=-1)
        elif self.kind == "hyla":
            scores = rms_head(scores)
        return scores.masked_fill(hidden, 0.0)
        # </paper2code name="latent codes">

    def apply_codes(self, codes: Tensor, x: Tensor) -> Tensor:
        """Run the value network of each pair on its key, and sum over keys.

        Args:
            codes: (B, H, T, T).
            x: (B, T, D).

        Returns:
            (B, T, D).
        """
        # <paper2code name="value network">
        values = torch.einsum("bkd,hcd->bhkc", x, self.value)
        if self.kind == "hyla":
            # <paper2code name="nonlinear value network">
            hidden = torch.einsum("bhqk,bhkc->bqkc", codes, values).relu()
            pooled = torch.einsum("bhqk,bqkc->bhqc", codes, hidden)
            # </paper2code name="nonlinear value network">
        else:
            pooled = codes @ values
        return torch.einsum("bhqc,hcd->bqd", pooled, self.out)
        # </paper2code name="value network">

    def generated_weights(self, codes: Tensor) -> Tensor:
        """The matrix that a linear value network of each pair consists of.

        Args:
            codes: (B, H, T, T).

        Returns:
            (B, T, T, D, D): a matrix that maps a token (its last dimension) to a part of the output.

        Raises:
            ValueError: the value network is not linear.
        """
        # <paper2code name="weights made by the hypernetwork">
        if self.kind == "hyla":
            raise ValueError("a value network with a nonlinearity is no matrix")
        return torch.einsum("bhqk,hco,hci->bqkoi", codes, self.out, self.value)
        # </paper2code name="weights made by the hypernetwork">

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Outputs (B, T, D) and latent codes (B, H, T, T)."""
        codes = self.codes(x, mask)
        return self.apply_codes(codes, x), codes
