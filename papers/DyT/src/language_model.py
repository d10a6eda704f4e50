"""A small LLaMA-style language model with DyT in all its normalization places."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from alpha_init import set_llm_alphas
from blocks import Block
from dynamic_tanh import DynamicTanh


class LanguageModel(nn.Module):
    """Token embedding, blocks, a last DyT layer, and an untied output head."""

    def __init__(self, vocabulary: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        # <paper2code name="embedding scale">
        self.embedding_scale = nn.Parameter(torch.tensor(math.sqrt(width)))
        # </paper2code name="embedding scale">
        self.blocks = nn.Sequential(*(Block(width, heads, DynamicTanh) for _ in range(depth)))
        self.norm = DynamicTanh(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        set_llm_alphas(self, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map token ids (N, T) to logits (N, T, vocabulary)."""
        x = self.embedding_scale * self.embedding(tokens)
        return self.head(self.norm(self.blocks(x)))
