"""How long a step is and how much it counts: warm-up and the averaging coefficient c.

Everything here is plain arithmetic on Python numbers; an optimiser keeps one `Progress` per parameter group.
"""

from __future__ import annotations

from typing import NamedTuple


class Progress(NamedTuple):
    """How far the averaging of one parameter group has come."""

    step: int = 0  # steps finished, t
    lr_max: float = 0.0  # largest step size met so far
    weight_sum: float = 0.0  # sum of the weights of all finished steps, W_t


def warmup_factor(step: int, warmup_steps: int) -> float:
    """The factor that the base step size is multiplied with in step `step`, counted from 1.

    Raises:
        ValueError: a step below 1 or a negative number of warm-up steps.
    """
    # <paper2code name="linear warm-up factor">
    if step < 1 or warmup_steps < 0:
        raise ValueError(f"no warm-up factor for step {step} of {warmup_steps}")
    if warmup_steps == 0:
        return 1.0
    return min(1.0, step / warmup_steps)
    # </paper2code name="linear warm-up factor">


def averaging_coefficient(
    progress: Progress, lr: float, r: float, power: float
) -> tuple[float, Progress]:
    """Account for one more step of size `lr`.

    Args:
        progress: where the group stood before this step.
        lr: the size of this step, warm-up included.
        r: power of the step number in the weight.
        power: power of the largest step size in the weight.

    Returns:
        The coefficient of the new z in the average, and where the group stands after this step.
    """
    # <paper2code name="weight of a step and averaging coefficient c">
    step = progress.step + 1
    lr_max = max(progress.lr_max, lr)
    weight = step**r * lr_max**power
    weight_sum = progress.weight_sum + weight
    c = weight / weight_sum if weight_sum else 0.0
    return c, Progress(step, lr_max, weight_sum)
    # </paper2code name="weight of a step and averaging coefficient c">
