"""The stochastic sampler for both kinds of columns."""

from __future__ import annotations

import torch
from torch import Tensor

from categories import mask_columns, unmask
from schedules import Schedules
from table import Model, Rows, Sizes, masks_of


def start(rows: int, schedules: Schedules, sizes: Sizes, generator: torch.Generator) -> Rows:
    """Rows at t = 1: noise of full size (``torch.randn``), and masks."""
    raw = schedules.num.raw
    num = torch.randn(rows, len(raw), generator=generator, dtype=raw.dtype) * schedules.num.high
    cat = torch.zeros(rows, len(sizes), dtype=torch.long)
    return Rows(num, cat + masks_of(cat, sizes))


def disturb(
    rows: Rows, s: float, t: float, schedules: Schedules, sizes: Sizes, generator: torch.Generator
) -> Rows:
    """The forward process from time s to a later time t, 0 <= s <= t <= 1.

    Draws, in the dtype of ``rows.num``: ``torch.randn`` like ``rows.num``, ``torch.rand`` of the shape of ``rows.cat``.
    """
    # <paper2code name="forward process between two times">
    like = {"generator": generator, "dtype": rows.num.dtype}
    times = rows.num.new_tensor([s, t])
    sigma_s, sigma_t = schedules.num.sigma(times)  # (N,) each
    alpha_s, alpha_t = schedules.cat.alpha(times)  # (M,) each
    spread = (sigma_t**2 - sigma_s**2).relu().sqrt()
    num = rows.num + spread * torch.randn(rows.num.shape, **like)
    uniforms = torch.rand(rows.cat.shape, **like)
    return Rows(num, mask_columns(rows.cat, alpha_t / alpha_s, uniforms, sizes))
    # </paper2code name="forward process between two times">


@torch.no_grad()
def reverse_step(
    model: Model,
    rows: Rows,
    t: float,
    s: float,
    gamma: float,
    schedules: Schedules,
    sizes: Sizes,
    generator: torch.Generator,
) -> Rows:
    """Go a little back to more noise, and from there to an earlier time.

    Draws, in the dtype of ``rows.num``: what ``disturb`` draws, then twice ``torch.rand`` of the shape of ``rows.cat``:
    which masks stay, and what the others turn into.

    Args:
        t: the time of ``rows``.
        s: the time one goes to.
        gamma: how far to go back, as a share of t.

    Raises:
        ValueError: not 0 <= s < t <= 1, or ``gamma`` is negative; nothing has been drawn then.
    """
    # <paper2code name="stochastic reverse step">
    if not 0 <= s < t <= 1:
        raise ValueError(f"no reverse step from {t} to {s}")
    if not gamma >= 0:
        raise ValueError(f"gamma must not be negative, not {gamma}")
    higher = min(t + gamma * t, 1.0)
    rows = disturb(rows, t, higher, schedules, sizes, generator)
    times = rows.num.new_tensor([higher, s])
    predicted = model(rows, times[0].expand(len(rows.num)))
    # <paper2code name="numerical step along the noise">
    sigma_high, sigma_s = schedules.num.sigma(times)
    num = rows.num + (sigma_s - sigma_high) * predicted.noise
    # </paper2code name="numerical step along the noise">
    alpha_high, alpha_s = schedules.cat.alpha(times)
    like = {"generator": generator, "dtype": num.dtype}
    stay = torch.rand(rows.cat.shape, **like)
    uniforms = torch.rand(rows.cat.shape, **like)
    cat = unmask(rows.cat, predicted.logits, alpha_high, alpha_s, stay, uniforms, sizes)
    return Rows(num, cat)
    # </paper2code name="stochastic reverse step">


def sample(
    model: Model,
    rows: int,
    steps: int,
    schedules: Schedules,
    sizes: Sizes,
    generator: torch.Generator,
) -> Rows:
    """New rows of the table."""
    made = start(rows, schedules, sizes, generator)
    grid: list[float] = torch.linspace(1, 0, steps + 1, dtype=torch.float64).tolist()
    for t, s in zip(grid, grid[1:]):
        made = reverse_step(model, made, t, s, 1 / steps, schedules, sizes, generator)
    return made


def moments(rows: Rows) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of every numerical column."""
    return rows.num.mean(0), rows.num.std(0)
