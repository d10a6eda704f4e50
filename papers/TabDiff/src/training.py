"""One step of training: the network and the schedules learn together."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from categories import mask_columns
from losses import categorical_loss, numerical_loss
from schedules import Schedules
from table import Rows, Sizes

EARLIEST = 1e-3  # times of training are not below this


class Losses(NamedTuple):
    """Means over the batch, before the update."""

    total: float
    num: float
    cat: float


def train_step(
    model: nn.Module,
    schedules: Schedules,
    optimizer: torch.optim.Optimizer,
    rows: Rows,
    sizes: Sizes,
    generator: torch.Generator,
    weight_num: float = 1.0,
    weight_cat: float = 1.0,
    max_norm: float = 1.0,
) -> Losses:
    """Disturb the rows at random times, and learn to say what was there.

    Draws from ``generator``, in this order and in the dtype of ``rows.num``: ``torch.rand`` of (1,) for the times,
    ``torch.randn`` of (B, N) for numerical columns, ``torch.rand`` of (B, M) for the masks.

    Args:
        model: called as ``model(noisy_rows, t)``, gives a Prediction.
        optimizer: has the parameters of the model and of both schedules.
        max_norm: bound on the norm of the gradients of the model and of both schedules together.

    Raises:
        ValueError: there are no rows, or a weight is negative; nothing has been drawn or changed then.
    """
    # <paper2code name="training step">
    if not len(rows.num) or not weight_num >= 0 or not weight_cat >= 0:
        raise ValueError("training needs rows, and weights that are not negative")
    batch, like = len(rows.num), {"generator": generator, "dtype": rows.num.dtype}
    # <paper2code name="stratified times">
    t = (torch.rand(1, **like) + torch.arange(batch, dtype=rows.num.dtype) / batch) % 1
    t = EARLIEST + (1 - EARLIEST) * t
    # </paper2code name="stratified times">
    noise = torch.randn(rows.num.shape, **like)
    uniforms = torch.rand(rows.cat.shape, **like)
    noisy = Rows(
        num=rows.num + schedules.num.sigma(t) * noise,
        cat=mask_columns(rows.cat, schedules.cat.alpha(t), uniforms, sizes),
    )
    predicted = model(noisy, t)
    num = numerical_loss(predicted, noise).mean()
    cat = categorical_loss(predicted.logits, rows.cat, noisy.cat, t, schedules.cat.k(), sizes)
    cat = cat.mean()
    total = weight_num * num + weight_cat * cat
    optimizer.zero_grad()
    total.backward()
    learnt = [p for part in (model, *schedules) for p in part.parameters()]
    nn.utils.clip_grad_norm_(learnt, max_norm)
    optimizer.step()
    return Losses(total.item(), num.item(), cat.item())
    # </paper2code name="training step">
