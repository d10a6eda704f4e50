"""Fill in columns of given rows."""

from __future__ import annotations

import torch
from torch import Tensor

from categories import mask_columns
from sampler import disturb, reverse_step, start
from schedules import Schedules
from table import Model, Rows, Sizes


@torch.no_grad()
def impute(
    model: Model,
    known: Rows,
    keep_num: Tensor,
    keep_cat: Tensor,
    steps: int,
    repeats: int,
    gamma: float,
    schedules: Schedules,
    sizes: Sizes,
    generator: torch.Generator,
) -> Rows:
    """Sample the columns that are not kept, given those that are.

    Draws, in the dtype of ``known.num``: what ``start`` draws; then in every repetition of every step what ``reverse_step``
    draws, ``torch.randn`` like ``known.num``, ``torch.rand`` of the shape of ``known.cat``, and, unless it is the last
    repetition, what ``disturb`` draws.

    Args:
        known: complete rows; what stands in the other columns has no influence.
        keep_num: (N,), bool.
        keep_cat: (M,), bool.
        steps: of equal length, from t = 1 to t = 0.
        repeats: how often every step is made.

    Raises:
        ValueError: fewer than one step or repetition; nothing has been drawn then.
    """
    # <paper2code name="imputation">
    if steps < 1 or repeats < 1:
        raise ValueError(f"{steps} steps, each made {repeats} times")
    like = {"generator": generator, "dtype": known.num.dtype}
    rows = start(len(known.num), schedules, sizes, generator)
    for i in range(steps):
        t, s = 1 - i / steps, 1 - (i + 1) / steps
        for left in reversed(range(repeats)):
            rows = reverse_step(model, rows, t, s, gamma, schedules, sizes, generator)
            # <paper2code name="known columns at the same noise">
            time = known.num.new_tensor([s])
            num = known.num + schedules.num.sigma(time) * torch.randn(known.num.shape, **like)
            uniforms = torch.rand(known.cat.shape, **like)
            cat = mask_columns(known.cat, schedules.cat.alpha(time), uniforms, sizes)
            rows = Rows(
                torch.where(keep_num, num, rows.num), torch.where(keep_cat, cat, rows.cat)
            )
            # </paper2code name="known columns at the same noise">
            if left:
                rows = disturb(rows, s, t, schedules, sizes, generator)
    return Rows(
        torch.where(keep_num, known.num, rows.num), torch.where(keep_cat, known.cat, rows.cat)
    )
    # </paper2code name="imputation">
