"""The class of an error: the same for the same cause, whoever stumbles over it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rcb_env.cases import difference
from rcb_env.grading.causes import error_class
from rcb_env.grading.verdict import Verdict
from rcb_env.runner.case_run import describe
from rcb_env.runner.operands import agree


def raised(code: Callable[[], object]) -> str:
    with pytest.raises(BaseException) as found:  # noqa: PT011 (any will do)
        code()
    return error_class(describe(found.value))


def differing(want: object, got: object) -> set[str]:
    """The classes of a difference, as both comparisons of ours see it."""
    one, other = difference(want, got, rtol=1e-5, atol=0), agree("equal", {}, want, got)
    assert one is not None
    assert other is not None
    return {one.error_class, other.error_class}


def test_one_size_mismatch_is_one_class_wherever_it_is_noticed() -> None:
    """Failed once: the same mismatch was `logic` in one way of grading and `other` in another.

    tests/contract/test_error_classes.py has the same for torch.
    """
    noticed = {
        raised(lambda: np.ones(3) + np.ones(2)),
        raised(lambda: np.ones((2, 3)) @ np.ones((2, 3))),
        raised(lambda: np.ones(3).reshape(2, 2)),
        raised(lambda: np.ones(3).sum(axis=4)),
        raised(lambda: np.ones(3)[0, 0]),
        raised(lambda: np.concatenate([np.ones((1, 2)), np.ones((2, 3))])),
        raised(lambda: np.testing.assert_allclose(np.ones(3), np.ones(2))),
        *differing(np.ones(3), np.ones(2)),
        *differing([1, 2], [1]),
    }
    assert noticed == {"shape"}


def test_another_type_is_one_class() -> None:
    one: object = 1
    noticed = {
        raised(lambda: one + "a"),  # type: ignore[operator]
        *differing(np.ones(3, "float32"), np.ones(3, "float64")),
        *differing(np.ones(3), None),
    }
    assert noticed == {"type"}


def test_other_numbers_are_one_class() -> None:
    noticed = {
        raised(lambda: np.testing.assert_allclose(np.ones(300), np.zeros(300))),
        raised(lambda: 1 // 0),
        raised(lambda: int("a")),
        *differing(np.ones(3), np.zeros(3)),
        *differing({"a": 1}, {"b": 1}),
    }
    assert noticed == {"value"}


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("x = (", "syntax"),
        ("if True:\nx = 1", "syntax"),
        ("shape", "name"),
        ("None.shape", "attribute"),
        ("{}['shape']", "index_key"),
        ("[][0]", "index_key"),
        ("import no_such_shape", "import"),
        ("from math import no_such_shape", "import"),
        ("len(1)", "type"),
        ("raise MemoryError", "memory"),
        ("raise NotImplementedError", "other"),
        ("raise KeyboardInterrupt", "other"),
        ("raise SystemExit(1)", "other"),
    ],
)
def test_the_type_decides_where_there_is_one(code: str, wanted: str) -> None:
    """A message may hold any word: only types that libraries use for everything are read further."""
    assert raised(lambda: exec(code, {})) == wanted


def test_limits_have_a_class_of_their_own_also_in_older_records() -> None:
    for status, wanted in (("timeout", "time"), ("out_of_memory", "memory"), ("passed", None)):
        stored = {**Verdict("passed").to_dict(), "status": status}
        assert Verdict.from_dict(stored).error_class == wanted
