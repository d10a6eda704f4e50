"""One step of the ODE: where it goes is the solver's business, how far is the schedule's."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class State(NamedTuple):
    """Where a sampler is.

    Attributes:
        x: (B, D).
        time: of ``x``.
        slope: (B, D): the velocity at the start of the step that led here; None at the beginning.
        length: signed length of that step, negative; 0 at the beginning.
    """

    x: Tensor
    time: float
    slope: Tensor | None = None
    length: float = 0.0


def advance(state: State, slope: Tensor, time: float, order: int) -> State:
    """Go from a state to an earlier time, without a call of the model.

    Args:
        state: where the step starts.
        slope: (B, D): velocity at ``state``.
        time: where the step ends.
        order: 1 for Euler steps, 2 for Adams-Bashforth steps.

    Raises:
        ValueError: the order is neither 1 nor 2, or ``time`` is not less than the state's time.
    """
    # <paper2code name="step of first or second order">
    if order not in (1, 2):
        raise ValueError(f"there is no solver of order {order}")
    if not time < state.time:
        raise ValueError(f"a step from {state.time} to {time} does not lead toward the data")
    length = time - state.time
    direction = slope
    if order == 2 and state.slope is not None:
        # <paper2code name="extrapolated direction">
        ahead = length / (2 * state.length)
        direction = (1 + ahead) * slope - ahead * state.slope
        # </paper2code name="extrapolated direction">
    return State(state.x + length * direction, time, slope, length)
    # </paper2code name="step of first or second order">
