"""Hidden: walks of an animal whose grid cells are counted, and how far its places are from each other."""

import numpy as np

from rcb_env.judging import Refused, array, problems

FEEDBACK, FINAL = 5, 14
MOMENTS, PAIRS = 600, 400


def _walk(r, size, free):
    """Places (MOMENTS, 2) of a smooth walk; `free` says which may be entered."""
    at = r.random(2) * size
    while not free(at):
        at = r.random(2) * size
    heading, turning = r.uniform(0, 2 * np.pi), r.uniform(0.25, 0.6)
    mean = pace = r.uniform(0.04, 0.07)
    places = np.empty((MOMENTS, 2))
    for moment in range(MOMENTS):
        places[moment] = at
        pace += 0.3 * (mean - pace) + 0.25 * mean * r.normal()
        pace = min(max(pace, 0.3 * mean), 2 * mean)
        heading += turning * r.normal()
        while True:
            new = at + pace * np.array([np.cos(heading), np.sin(heading)])
            if (new > 0).all() and (new < size).all() and free(new) and free((at + new) / 2):
                break
            heading += r.normal()
        at = new
    return places


def _rates(r, places, bend):
    """Between 0 and 1, of all cells of a few modules, (MOMENTS, cells)."""
    rates, period = [], r.uniform(0.35, 0.6)
    for _ in range(int(r.integers(2, 5))):
        cells = int(r.integers(10, 30))
        moved = places @ (np.eye(2) + r.normal(0, 2 * bend, (2, 2)))
        moved += bend * np.sin(places @ r.normal(0, 3.0, (2, 2)) + r.uniform(0, 2 * np.pi, 2))
        angles = r.uniform(0, np.pi) + np.arange(3) * np.pi / 3
        waves = 4 * np.pi / np.sqrt(3) / period * np.stack([np.cos(angles), np.sin(angles)])
        phases = (moved[:, None] - r.uniform(0, 2, (cells, 2))) @ waves
        rates.append(((np.cos(phases).sum(2) + 1.5) / 4.5) ** r.uniform(1.0, 2.5))
        period *= r.uniform(1.3, 1.7)
    return np.hstack(rates)


def _cost(submission, r, places, bend=0.0, moods=0.0):
    rates = _rates(r, places, bend)
    rates *= r.uniform(2.0, 6.0) * np.exp(r.normal(0, 0.3, rates.shape[1]))
    mood = np.zeros(MOMENTS)
    for moment in range(1, MOMENTS):
        mood[moment] = 0.9 * mood[moment - 1] + np.sqrt(1 - 0.81) * r.normal()
    counts = r.poisson(rates * np.exp(moods * mood)[:, None] + r.uniform(0, 0.2))
    unit = 10 ** r.uniform(-1, 2)
    steps = unit * np.linalg.norm(np.diff(places, axis=0), axis=1)
    steps *= np.exp(r.normal(0, r.uniform(0.02, 0.15), len(steps)))
    pairs = r.integers(0, MOMENTS, (PAIRS, 2))
    far = unit * np.linalg.norm(places[pairs[:, 0]] - places[pairs[:, 1]], axis=1)
    found = array(
        submission.call("distances", counts=counts, steps=steps, pairs=pairs),
        shape=(PAIRS,),
        name="the distances",
    )
    if (found < 0).any():
        raise Refused("a distance is negative")
    return float(np.abs(found - far).mean() / far.mean())


@problems(feedback=FEEDBACK, final=FINAL)
def fields(submission, rng):
    """Rectangles, and cells as the paper has them."""
    r = rng.numpy
    size = r.uniform(0.6, 1.2, 2)
    return _cost(submission, r, _walk(r, size, lambda _: True))


@problems(feedback=FEEDBACK, final=FINAL)
def bent(submission, rng):
    """Discs; the maps of the modules are bent, and all cells are livelier at some times."""
    r = rng.numpy
    radius = r.uniform(0.35, 0.6)
    places = _walk(r, np.full(2, 2 * radius), lambda x: np.linalg.norm(x - radius) < radius)
    return _cost(submission, r, places, r.uniform(0.02, 0.08), r.uniform(0.1, 0.5))


@problems(feedback=FEEDBACK, final=FINAL)
def walls(submission, rng):
    """Two rooms with a door; distances go through the wall."""
    r = rng.numpy
    size = r.uniform(0.7, 1.1, 2)
    wall, door = size * r.uniform((0.35, 0.15), (0.65, 0.85))
    wide = r.uniform(0.12, 0.2)

    def free(x):
        return abs(x[0] - wall) > 0.03 or abs(x[1] - door) < wide

    return _cost(submission, r, _walk(r, size, free), 0.0, r.uniform(0.0, 0.3))
