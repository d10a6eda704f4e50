"""Fuzzy logic functions, to be regressed in context.

A function is a disjunction of K conjunctions over L variables: an integer tensor (K, L) that holds
+1 for a variable, -1 for its negation, and 0 where the variable does not occur.
"""

from __future__ import annotations

from itertools import combinations, product

import torch
from torch import Tensor


def truth(terms: Tensor, x: Tensor) -> Tensor:
    """Evaluate a function with Zadeh's operators.

    Args:
        terms: (K, L); K may be 0.
        x: (N, L), truth values in [0, 1].

    Returns:
        (N,), in the dtype of ``x``.

    Raises:
        ValueError: an entry of ``terms`` is not -1, 0 or 1, or the numbers of variables differ.
    """
    # <paper2code name="fuzzy disjunction of conjunctions">
    if ((terms < -1) | (terms > 1)).any() or terms.shape[1] != x.shape[1]:
        raise ValueError("terms must be -1, 0 or 1, one for each variable")
    literals = torch.where(terms > 0, x[:, None], 1 - x[:, None])  # (N, K, L)
    conjunctions = literals.masked_fill(terms == 0, 1.0).amin(dim=2)  # (N, K)
    false = x.new_zeros(len(x), 1)
    return torch.cat([conjunctions, false], dim=1).amax(dim=1)
    # </paper2code name="fuzzy disjunction of conjunctions">


def prompts(terms: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Make sequences of examples, the last of which lacks its result.

    Args:
        terms: (B, K, L), one function per sequence.
        x: (B, N, L).

    Returns:
        Tokens (B, N, L + 1), and the missing results (B,).
    """
    results = torch.stack([truth(t, points) for t, points in zip(terms, x)])  # (B, N)
    shown = results.clone()
    shown[:, -1] = 0.0
    return torch.cat([x, shown[..., None]], dim=-1), results[:, -1]


def all_functions(variables: int, terms: int) -> list[tuple[tuple[int, ...], ...]]:
    """All functions of ``terms`` different conjunctions in which every variable occurs."""
    return list(combinations(product((-1, 1), repeat=variables), terms))


def hold_out(
    functions: list[tuple[tuple[int, ...], ...]], order: list[int], count: int
) -> tuple[list[int], list[int]]:
    """Split functions so that what is held out is made of conjunctions that training knows.

    Args:
        functions: tuples of hashable conjunctions, no conjunction twice in one function.
        order: a permutation of their indices: in which order they are tried.
        count: how many to hold out.

    Returns:
        Indices for training (rising), and held-out indices (in the order they were chosen).

    Raises:
        ValueError: not so many can be held out in this order.
    """
    # <paper2code name="compositional split">
    uses: dict[tuple[int, ...], int] = {}
    for function in functions:
        for conjunction in function:
            uses[conjunction] = uses.get(conjunction, 0) + 1
    held: list[int] = []
    for index in order:
        if len(held) == count:
            break
        if all(uses[conjunction] > 1 for conjunction in functions[index]):
            held.append(index)
            for conjunction in functions[index]:
                uses[conjunction] -= 1
    if len(held) != count:
        raise ValueError(f"only {len(held)} of {count} functions can be held out")
    return [index for index in range(len(functions)) if index not in held], held
    # </paper2code name="compositional split">
