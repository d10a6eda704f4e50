"""Operands of a suite's comparisons: as plain data, and one run's held against another's by the suite's own rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rcb_env import cases
from rcb_env.cases import Difference
from rcb_env.runner.operands import agree, plain


class _Odd:
    def __iter__(self) -> None:
        raise RuntimeError

    @property
    def __array__(self) -> None:
        raise RuntimeError("no")


def sent(value: Any) -> Any:
    return cases.decode(cases.encode(plain(value)))


@pytest.mark.parametrize(
    ("name", "settings", "want", "got", "same"),
    [
        ("allclose", {}, np.ones(3), np.ones(3) * (1 + 9e-6), True),
        ("allclose", {}, np.ones(3), np.ones(3) * (1 + 2e-5), False),
        ("allclose", {"atol": 0.1}, np.ones(3), np.ones(3) + 0.05, True),
        ("allclose", {"0": 0.0, "1": 0.0}, np.ones(3), np.ones(3) + 1e-9, False),
        ("allclose", {}, np.ones(3), np.ones((1, 3)), True),
        ("allclose", {}, np.ones(3), np.ones((0, 3)), False),
        ("allclose", {}, np.ones(3), np.ones((3, 3)), True),
        ("allclose", {}, np.ones(3), np.array([1, np.nan, 1]), False),
        ("allclose", {}, np.ones(3), "ones", False),
        ("equal", {}, np.ones(3, np.float32), np.ones(3, np.float64), False),
        ("equal", {}, np.arange(3), np.arange(3), True),
        ("assert_close", {}, np.ones(3, np.float32), np.ones(3, np.float32) * 1.000005, True),
        ("assert_close", {}, np.ones(3, np.float64), np.ones(3, np.float64) * 1.000005, False),
        ("assert_allclose", {"rtol": 1e-3}, 2.0, 2.001, True),
        ("assertAlmostEqual", {}, 1.0, 1.0 + 4e-8, True),
        ("assertAlmostEqual", {"0": 2}, 1.0, 1.004, True),
        ("assertAlmostEqual", {"delta": 0.5}, 1.0, 1.4, True),
        ("assertAlmostEqual", {"0": 3}, 1.0, 1.004, False),
        ("assertEqual", {}, 3, 3.0, True),
        ("assertEqual", {}, (1, 2), [1, 2], False),
        ("assertEqual", {}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ("assertEqual", {}, {2, 1}, {1, 2}, True),
        ("assertEqual", {}, 0.1 + 0.2, 0.3, False),
        ("assertLess", {}, 0.5, 0.5001, True),
        ("assertLess", {}, 0.5, 0.7, False),
        ("assertTrue", {}, True, False, False),
        ("-", {"limit": 1e-3}, np.ones(2), np.ones(2) + 9e-4, True),
        ("-", {"limit": 1e-3}, np.ones(2), np.ones(2) + 2e-3, False),
        ("assertIsInstance", {}, np.ones, np.ones, True),
        ("assertEqual", {}, None, 0, False),
    ],
)
def test_an_operand_is_compared_as_the_suite_would(
    name: str, settings: dict[str, Any], want: Any, got: Any, same: bool
) -> None:
    found = agree(name, settings, sent(want), sent(got))
    assert (found is None) is same, found


def test_what_has_no_plain_form_is_its_types_name_and_raises_nothing() -> None:
    assert sent(_Odd()) == {"opaque": "_Odd"} or "unreadable" in sent(_Odd())
    assert sent(object()) == {"opaque": "object"}
    assert sent(b"ab") == {"bytes": "6162"}
    assert sent(np.float32(0.5)) == 0.5
    deep: list[Any] = []
    for _ in range(60):
        deep = [deep]
    assert "opaque" in str(sent(deep))


def test_what_is_told_holds_no_expected_value() -> None:
    found = agree("allclose", {}, np.full(3, 777.0), np.zeros(3))
    assert found == Difference("3 of 3 values of it differ")
    assert agree("assertEqual", {}, {"a": [777]}, {"a": [1]}) == Difference(".a[0] differs")
