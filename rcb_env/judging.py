"""What an author of an open challenge's `judge.py` imports: `@problems`, `Oracle`, `array`, `Refused`.

    from rcb_env.judging import Oracle, array, problems

    @problems(feedback=8, final=24)
    def quadratics(submission, rng):
        a = rng.numpy.uniform(0.1, 10, 20)
        gradient = Oracle(lambda x: a * x, budget=100, shape=(20,))
        x = submission.call("minimize", start=rng.numpy.normal(size=20), gradient=gradient)
        return float(np.sum(a * array(x, shape=(20,)) ** 2))

A function makes one problem of a generator, has the submission called, and returns its cost: the less, the better. It
runs in the judge's box. What it calls runs in the candidate's, and gets arrays, numbers, strings and containers of them, and oracles,
which it may call; every call is a message to here, is counted here, and is answered from here. An oracle may raise
`Enough` to end the call: `submission.call` then returns None.
Guarantees: what comes back is plain data of bounded size; what is no answer becomes a `Refused`, the submission's fault.
Not covered: how messages go (`runner/open_run.py`), what the costs add up to (`grading/measured.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

Kind = Literal["ratio", "difference"]

_MORE_ASKS = 100  # calls beyond a budget that are answered by a refusal; then the problem is over
_LARGEST = 1e100  # of numbers that are looked at: beyond it squares and their sums overflow, and costs are what they like


class Refused(Exception):
    """What the submission did or gave back is no answer; the text is for whoever wrote it."""


class Enough(Exception):
    """Raised by an oracle: the call of the submission is over, and it gives nothing back."""


class Submission(Protocol):
    """The submission, in its own box."""

    def call(self, function: str, /, **arguments: Any) -> Any:
        """What one of its functions returns; None where an oracle had `Enough`, and then it was the last call.

        Raises:
            Refused: it returned nothing that can be read here.
        """


@dataclass(frozen=True)
class Problems:
    """A family of problems of one `judge.py`.

    Attributes:
        feedback, final: how many of them a test run and the score take.
        kind: what a problem adds to a score: ``log(paper / cost)``, or ``paper - cost``.
        least: a smaller cost counts as this one; for ratios.
    """

    name: str
    function: Callable[[Submission, Any], float]
    feedback: int
    final: int
    kind: Kind
    least: float

    def cost(self, value: object) -> float:
        """A problem's cost, as it counts.

        Raises:
            Refused: it is not finite, or beyond all measure.
        """
        number = float(value)  # type: ignore[arg-type]
        if not abs(number) <= _LARGEST:
            raise Refused(f"its cost is {number}")
        return max(number, self.least) if self.kind == "ratio" else number


def problems(
    *, feedback: int, final: int, kind: Kind = "ratio", least: float = 1e-12
) -> Callable[[Callable[[Any, Any], float]], Callable[[Any, Any], float]]:
    """Mark a function ``(submission, rng) -> cost`` as a family of problems."""

    def mark(function: Callable[[Any, Any], float]) -> Callable[[Any, Any], float]:
        made = Problems(function.__name__, function, feedback, final, kind, least)
        function.__rcb_problems__ = made  # type: ignore[attr-defined]
        return function

    return mark


def problems_in(namespace: Mapping[str, Any]) -> tuple[Problems, ...]:
    """The families of an executed `judge.py`, in the order they are written."""
    found = (getattr(value, "__rcb_problems__", None) for value in namespace.values())
    return tuple(item for item in found if isinstance(item, Problems))


class Oracle:
    """A function that the submission may call, a counted number of times.

    Args:
        function: returns an array, or a tuple of arrays. With a `budget` and a `shape` it gets the points of a call as arrays
            with one dimension more than `shape`, also where there is one, and returns as many answers; else one point.
        budget: how many points may be asked for. Arguments of `shape` are one point; with one dimension more they are as many
            as that dimension says. None: as many as one likes, one a call, which `function` ends by `Enough`.
        shape: of a point, the same for all arguments; None: each call is one point, and `function` checks its arguments.
        arguments: how many there are.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        budget: int | None,
        shape: tuple[int, ...] | None = None,
        arguments: int = 1,
    ) -> None:
        self._function, self._budget = function, budget
        self._shape, self._arguments = shape, arguments
        self._refused = 0
        self.used = 0

    @property
    def left(self) -> int | None:
        """How many points may still be asked for."""
        return None if self._budget is None else self._budget - self.used

    def ask(self, arguments: object) -> Any:
        """The answer, or None where the budget does not reach; whoever goes on asking is refused.

        Raises:
            Refused: the arguments are none.
            Enough: the call of the submission is over.
        """
        if not isinstance(arguments, list) or len(arguments) != self._arguments:
            raise Refused(
                f"an oracle was called with something else than {self._arguments} argument(s)"
            )
        points, single = 1, True
        if self._shape is not None:
            arguments = [array(one, name="what an oracle was asked for") for one in arguments]
            asked = arguments[0].shape
            if any(one.shape != asked for one in arguments):
                raise Refused("an oracle was asked for arrays of several shapes")
            single = asked == self._shape
            if not single:
                if self._budget is None or asked[1:] != self._shape or asked[:1] == (0,):
                    many = "" if self._budget is None else ", or any number of them"
                    raise Refused(
                        f"an oracle was asked for shape {asked}; it takes {self._shape}{many}"
                    )
                points = asked[0]
        if self._budget is not None and self.used + points > self._budget:
            self._refused += 1
            if self._refused > _MORE_ASKS:
                raise Refused("it went on calling an oracle whose budget was spent")
            return None
        self.used += points
        if self._shape is None or self._budget is None:
            return self._function(*arguments)
        answer = self._function(*(one[None] if single else one for one in arguments))
        parts = answer if isinstance(answer, tuple) else (answer,)
        if any(np.shape(part)[:1] != (points,) for part in parts):
            # One that takes the points for something else would tell more than is paid for.
            raise TypeError(f"an oracle's function gave other than {points} answers")
        given = tuple(part[0] for part in parts) if single else parts
        return given if isinstance(answer, tuple) else given[0]


def array(value: object, *, shape: tuple[int, ...] | None = None, name: str = "the result") -> Any:
    """A value of the submission, an array, a number or a list of such, as finite float64 numbers.

    Raises:
        Refused: it is no array of numbers, has another shape, or holds NaN or what is beyond all measure.
    """
    if isinstance(value, bool | int | float):
        value = np.float64(value) if abs(value) <= _LARGEST else np.float64("inf")
    if isinstance(value, list | tuple):
        try:
            value = np.array(value)
        except (ValueError, TypeError, OverflowError):
            raise Refused(f"{name} is a list of unequal parts") from None
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind not in "fiub":
        raise Refused(f"{name} is no array of real numbers")
    if shape is not None and value.shape != shape:
        raise Refused(f"{name} has the shape {value.shape}, not {shape}")
    numbers = np.array(value, dtype=np.float64)
    if not (np.abs(numbers) <= _LARGEST).all():
        raise Refused(f"{name} holds NaN, infinity or numbers beyond {_LARGEST:g}")
    return numbers
