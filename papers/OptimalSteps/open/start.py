"""A plan for a sampler of few steps: when it looks at the velocity, and what it makes of what it has seen.

task.md says what is to be written, and how it is measured.
"""

import numpy as np


# <paper2code name="plan of a sampler">
def plan(velocity, noise, steps):
    """Find times and weights for a sampler.

    Args:
        velocity: a function of points (n, d + 1), x and the time behind it; returns (n, d).
        noise: (64, d), noises as a sampler starts from.
        steps: how many velocities the sampler may look at.

    Returns:
        Times (steps,) and weights (steps, steps).
    """
    n, d = 32, noise.shape[1]
    start = noise[:16]

    def look(x, time):
        return velocity(np.column_stack([x, np.full(len(x), time)]))

    grid = np.linspace(1, 0, n + 1)
    teacher = [start]
    for now, then in zip(grid[:-1], grid[1:]):
        first = look(teacher[-1], now)
        ahead = teacher[-1] + (then - now) * first
        if then > 0:
            ahead = teacher[-1] + (then - now) * (first + look(ahead, then)) / 2
        teacher.append(ahead)
    # The best state at each position after so many steps, by what is nearest to the teacher: x, the last velocity and length.
    states, parents = {0: (start, None, 0.0)}, []
    for step in range(steps):
        slopes = {i: look(state[0], grid[i]) for i, state in states.items()}
        reached, came = {}, {}
        for j in [n] if step == steps - 1 else range(step + 1, n):
            best = np.inf
            for i, v in slopes.items():
                if i < j:
                    x, before, length = states[i]
                    h = grid[j] - grid[i]
                    made = x + h * (v if before is None else v + h / (2 * length) * (v - before))
                    error = ((made - teacher[j]) ** 2).mean()
                    if error < best:
                        best, came[j], reached[j] = error, i, (made, v, h)
        states = reached
        parents.append(came)
    way = [n]
    for came in reversed(parents):
        way.append(came[way[-1]])
    times = grid[way[::-1]]
    h = np.diff(times)
    weights = np.diag(h)
    for i in range(1, steps):
        extra = h[i] ** 2 / (2 * h[i - 1])
        weights[i, i] += extra
        weights[i, i - 1] -= extra
    return times[:-1], weights
# </paper2code name="plan of a sampler">
