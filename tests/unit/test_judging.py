"""What an oracle answers and what it does not, and which numbers are looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rcb_env.judging import Oracle, Problems, Refused, array


def _mean(x: Any) -> Any:
    return x.mean(-1)


def test_one_point_and_many_have_the_same_answers() -> None:
    oracle = Oracle(_mean, budget=5, shape=(3,))
    points = np.arange(6.0).reshape(2, 3)
    assert list(oracle.ask([points])) == [oracle.ask([point]) for point in points]
    assert oracle.used == 4
    assert oracle.ask([points]) is None
    assert oracle.left == 1


def test_several_points_in_one_call_need_a_budget() -> None:
    """Where calls are counted by the function itself, many points for the price of one would be a gift."""
    oracle = Oracle(_mean, budget=None, shape=(3,))
    assert oracle.ask([np.ones(3)]) == 1.0
    for several in (np.ones((3, 3)), np.ones((1, 3))):
        with pytest.raises(Refused, match="takes"):
            oracle.ask([several])


def test_no_points_are_no_question() -> None:
    with pytest.raises(Refused, match="shape"):
        Oracle(_mean, budget=5, shape=(3,)).ask([np.ones((0, 3))])


def test_a_function_that_takes_points_for_something_else_is_a_fault() -> None:
    """A matrix times a square of points is a square, of the wrong sums."""
    with pytest.raises(TypeError, match="other than 1 answers"):
        Oracle(lambda x: np.eye(3) @ x.T, budget=5, shape=(3,)).ask([np.ones(3)])


def test_several_answers_are_one_a_point_each() -> None:
    oracle = Oracle(lambda x: (x, _mean(x)), budget=9, shape=(3,))
    whole, mean = oracle.ask([np.ones(3)])
    assert (whole.shape, mean) == ((3,), 1.0)


@pytest.mark.parametrize("value", [1e200, -1e101, np.float64(1e200), [0.0, 1e101], 10**400])
def test_numbers_whose_squares_overflow_are_refused(value: object) -> None:
    """Sums of what overflows can be minus infinity, and a cost that is cut off at nothing is then nothing."""
    with pytest.raises(Refused):
        array(value)
    problem = Problems("any", lambda *_: 0.0, 1, 1, "difference", 0.0)
    if isinstance(value, float):
        with pytest.raises(Refused, match="cost"):
            problem.cost(value)


def test_lists_of_numbers_are_arrays() -> None:
    assert array([1, 2.5], shape=(2,)).tolist() == [1.0, 2.5]
    others: list[object] = [[[1.0], 2.0], ["1"], [None], [{}], [10**400]]
    for other in others:
        with pytest.raises(Refused):
            array(other)
