"""Noise schedules that are learnt, one exponent for every column of the table."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PowerMeanSchedule(nn.Module):
    """Standard deviations for numerical columns, from ``low`` at t = 0 to ``high`` at t = 1."""

    def __init__(
        self, columns: int, rho: float = 7.0, low: float = 0.002, high: float = 80.0
    ) -> None:
        super().__init__()
        self.low, self.high = low, high
        self.raw = nn.Parameter(torch.full((columns,), math.log(math.expm1(rho - 1))))

    def rho(self) -> Tensor:
        """(N,): the exponents, above 1."""
        return 1 + F.softplus(self.raw)

    def sigma(self, t: Tensor) -> Tensor:
        """Times (B,) to standard deviations (B, N)."""
        # <paper2code name="power-mean schedule">
        rho = self.rho()
        low, high = self.low ** (1 / rho), self.high ** (1 / rho)
        return (low + t[:, None] * (high - low)) ** rho
        # </paper2code name="power-mean schedule">


class LogLinearSchedule(nn.Module):
    """Probabilities that categorical columns are not masked."""

    def __init__(self, columns: int, k: float = 1.0) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.full((columns,), math.log(math.expm1(k))))

    def k(self) -> Tensor:
        """(M,): the exponents, above 0."""
        return F.softplus(self.raw)

    def alpha(self, t: Tensor) -> Tensor:
        """Times (B,) to probabilities (B, M)."""
        # <paper2code name="log-linear schedule">
        return 1 - t[:, None] ** self.k()
        # </paper2code name="log-linear schedule">


class Schedules(NamedTuple):
    """The schedules of a table."""

    num: PowerMeanSchedule
    cat: LogLinearSchedule
