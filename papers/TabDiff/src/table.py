"""Rows of a table with numerical and categorical columns, and what a network says about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

Sizes = Sequence[int]  # number of categories of each categorical column, without the mask
CATEGORIES = 1  # the dimension of logits that the categories of a column lie along


class Rows(NamedTuple):
    """B rows.

    Attributes:
        num: (B, N), floating point.
        cat: (B, M), int64; column j holds 0 ... sizes[j] - 1, or sizes[j] for a mask.
    """

    num: Tensor
    cat: Tensor


class Prediction(NamedTuple):
    """What a network says about noisy rows.

    Attributes:
        noise: (B, N): the noise in every numerical column, in units of its standard deviation.
        logits: (B, sum of sizes): unnormalized log-probabilities of the true categories, column after column.
    """

    noise: Tensor
    logits: Tensor


Model = Callable[[Rows, Tensor], Prediction]  # noisy rows and their times (B,)


def split_columns(logits: Tensor, sizes: Sizes) -> list[Tensor]:
    """(B, sum of sizes) to one tensor (B, sizes[j]) for each categorical column."""
    return list(logits.split(list(sizes), dim=1))


def masks_of(cat: Tensor, sizes: Sizes) -> Tensor:
    """(M,): the number that stands for a mask in each column."""
    return cat.new_tensor(list(sizes))
