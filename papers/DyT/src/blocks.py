"""A small pre-norm transformer block that takes any normalization layer, and LayerNorm2d."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

MakeNorm = Callable[[int], nn.Module]


class LayerNorm2d(nn.LayerNorm):
    """LayerNorm over the channels of channels-first images (N, C, H, W), as ConvNeXt uses it."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize every pixel over its channels."""
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class CausalAttention(nn.Module):
    """Multi-head causal self-attention without biases."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Attend over (N, T, width)."""
        n, t, width = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (N, heads, T, d)
        return self.out(mixed.transpose(1, 2).reshape(n, t, width))


class FeedForward(nn.Module):
    """SwiGLU feed-forward network without biases."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Transform every token on its own."""
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """Attention, then feed-forward, each behind its own normalization layer and residual."""

    def __init__(self, width: int, heads: int, make_norm: MakeNorm) -> None:
        super().__init__()
        self.attention_norm = make_norm(width)
        self.attention = CausalAttention(width, heads)
        self.ffn_norm = make_norm(width)
        self.ffn = FeedForward(width, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, T, width) to (N, T, width)."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.ffn(self.ffn_norm(x))
