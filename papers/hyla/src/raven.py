"""A symbolic version of Raven's progressive matrices: 3 x 3 panels of M features with F values."""

from __future__ import annotations

import numpy as np

CONSTANT, UP_1, DOWN_1, UP_2, DOWN_2, ADDITION, SUBTRACTION, THREE = range(8)
STEPS = {CONSTANT: 0, UP_1: 1, DOWN_1: -1, UP_2: 2, DOWN_2: -2}


def feature_rows(rule: int, draws: np.ndarray, values: int) -> np.ndarray:
    """The three rows of one feature.

    Args:
        rule: one of the eight rules.
        draws: (3, 3), random integers in [0, ``values``): row, number.
        values: F.

    Returns:
        (3, 3), int64: row, column.

    Raises:
        ValueError: there is no such rule.
    """
    # <paper2code name="rows that follow a rule">
    draws = draws.astype(np.int64)  # sums must fit
    first, second = draws[:, 0], draws[:, 1]
    if rule in STEPS:
        rows = first[:, None] + STEPS[rule] * np.arange(3)
    elif rule == ADDITION:
        rows = np.stack([first, second, first + second], axis=1)
    elif rule == SUBTRACTION:
        rows = np.stack([first, second, first - second], axis=1)
    elif rule == THREE:
        rows = np.stack([np.roll(draws[0], -shift) for shift in range(3)])
    else:
        raise ValueError(f"there is no rule {rule}")
    return rows % values
    # </paper2code name="rows that follow a rule">


def puzzle(
    rules: np.ndarray, draws: np.ndarray, orders: np.ndarray, values: int
) -> tuple[np.ndarray, np.ndarray]:
    """One puzzle, ready for a network.

    Args:
        rules: (M,).
        draws: (M, 3, 3).
        orders: (3, M): for each column of the matrix, which feature stands at each place.
        values: F.

    Returns:
        Tokens (9, M * F), float32, and the solution (M,), int64.

    Raises:
        ValueError: there is no such rule, or a row of ``orders`` is no permutation.
    """
    # <paper2code name="puzzle with shuffled features">
    number = len(rules)
    if orders.shape != (3, number) or (np.sort(orders, axis=1) != np.arange(number)).any():
        raise ValueError("orders must hold a permutation of the features for each column")
    grid = np.empty((3, 3, number), dtype=np.int64)  # row, column, place
    for feature, rule in enumerate(rules):
        rows = feature_rows(int(rule), draws[feature], values)
        for column in range(3):
            place = int(np.argmax(orders[column] == feature))
            grid[:, column, place] = rows[:, column]
    # <paper2code name="panels as one-hot tokens">
    tokens = np.eye(values, dtype=np.float32)[grid].reshape(9, number * values)
    tokens[-1] = 0.0
    # </paper2code name="panels as one-hot tokens">
    return tokens, grid[2, 2]
    # </paper2code name="puzzle with shuffled features">
