"""A small transformer over the columns of a row."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from schedules import Schedules
from table import Prediction, Rows, Sizes


class ColumnTransformer(nn.Module):
    """One token a column; the time is added to all of them."""

    def __init__(self, schedules: Schedules, sizes: Sizes, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        columns = len(schedules.num.raw)
        self.deviations = [schedules.num.sigma]  # in a list, so that the schedule is not a part of this module
        self.scale = nn.Parameter(torch.randn(columns, width))
        self.shift = nn.Parameter(torch.randn(columns, width))
        self.tables = nn.ModuleList(nn.Embedding(size + 1, width) for size in sizes)
        self.time = nn.Sequential(nn.Linear(2, width), nn.SiLU(), nn.Linear(width, width))
        self.body = nn.TransformerEncoderLayer(
            width, heads, 2 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.noise = nn.Linear(width, 1)
        self.logits = nn.ModuleList(nn.Linear(width, size) for size in sizes)

    def forward(self, rows: Rows, t: Tensor) -> Prediction:
        """rows: B of them; t: (B,)."""
        scaled = rows.num / (1 + self.deviations[0](t) ** 2).sqrt()
        tokens = [scaled.unsqueeze(2) * self.scale + self.shift]  # (B, N, width)
        tokens += [table(column)[:, None] for table, column in zip(self.tables, rows.cat.T)]
        time = self.time(torch.stack([t, t**2], dim=1))
        hidden = self.body(torch.cat(tokens, dim=1) + time[:, None])  # (B, N + M, width)
        columns = rows.num.shape[1]
        logits = [head(hidden[:, columns + j]) for j, head in enumerate(self.logits)]
        return Prediction(self.noise(hidden[:, :columns])[..., 0], torch.cat(logits, dim=1))
