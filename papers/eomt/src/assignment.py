"""The linear assignment problem, solved by shortest augmenting paths."""

from __future__ import annotations

import numpy as np


def assign(cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Choose min(n, m) entries of a matrix with the least sum, no two in a row or in a column.

    Args:
        cost: (n, m), float64; n or m may be 0.

    Returns:
        The rows, rising, and the column of each of them; int64.

    Raises:
        ValueError: the cost is not a matrix, or has entries that are not finite.
    """
    # <paper2code name="assignment of least cost">
    if cost.ndim != 2 or not np.isfinite(cost).all():
        raise ValueError(f"no matrix of finite numbers, shape {cost.shape}")
    n, m = cost.shape
    if n > m:
        columns, rows = assign(cost.T)
        return np.sort(rows), columns[np.argsort(rows)]
    u, v = np.zeros(n), np.zeros(m)  # potentials
    column_of, row_of = np.full(n, -1), np.full(m, -1)  # -1: free
    for start in range(n):
        # <paper2code name="shortest path to a free column">
        distance, before = np.full(m, np.inf), np.empty(m, int)
        done = np.zeros(m, bool)
        row, least = start, 0.0
        while row >= 0:
            through = least + cost[row] - u[row] - v
            closer = ~done & (through < distance)
            distance[closer], before[closer] = through[closer], row
            column = np.where(done, np.inf, distance).argmin()
            least, done[column] = distance[column], True
            row = row_of[column]
        # </paper2code name="shortest path to a free column">
        gain = least - distance
        v[done] -= gain[done]
        done[column] = False
        u[start] += least
        u[row_of[done]] += gain[done]
        while column >= 0:  # swap along the path
            row = before[column]
            row_of[column] = row
            column, column_of[row] = column_of[row], column
    return np.arange(n), column_of
    # </paper2code name="assignment of least cost">
