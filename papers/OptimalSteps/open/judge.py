"""Hidden: exact mixture flows, a sampler that follows a plan, and how far it ends from where the flow goes."""

import numpy as np

from rcb_env.judging import Oracle, Refused, array, problems

FEEDBACK, FINAL = 5, 16
KNOWN, UNSEEN = 64, 128  # noises that the submission is given, and those that are measured
POINTS = 12_000  # of the velocity
FINE = 80  # steps of Runge and Kutta to where the flow goes


def _field(weights, centres, spreads):
    """The velocity of a flow from noise to a mixture of Gaussians with diagonal covariances, of points (n, d) and one time."""
    logs = np.log(weights)

    def velocity(x, t):
        means, variances = (1 - t) * centres, (1 - t) ** 2 * spreads**2 + t**2
        far = x**2 @ (1 / variances).T - 2 * x @ (means / variances).T
        told = logs - 0.5 * (far + (means**2 / variances + np.log(variances)).sum(1))
        share = np.exp(told - told.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        slope = (t - (1 - t) * spreads**2) / variances
        return x * (share @ slope) - share @ (slope * means + centres)

    return velocity


def _ends(velocity, x):
    """Where the flow takes these noises."""
    times = np.linspace(1, 0, FINE + 1) ** 1.5
    for now, then in zip(times[:-1], times[1:], strict=True):
        h = then - now
        a = velocity(x, now)
        b = velocity(x + h / 2 * a, now + h / 2)
        c = velocity(x + h / 2 * b, now + h / 2)
        x = x + h / 6 * (a + 2 * b + 2 * c + velocity(x + h * c, then))
    return x


def _cost(submission, r, velocity, d):
    steps = int(r.integers(4, 11))

    def ask(z):
        found = np.empty((len(z), d))
        for time in np.unique(z[:, d]):
            here = z[:, d] == time
            found[here] = velocity(z[here, :d], float(np.clip(time, 0, 1)))
        return found

    asked = Oracle(ask, budget=POINTS, shape=(d + 1,))
    found = submission.call("plan", velocity=asked, noise=r.normal(size=(KNOWN, d)), steps=steps)
    if not isinstance(found, list | tuple) or len(found) != 2:
        raise Refused("it is no pair of times and weights")
    times = array(found[0], shape=(steps,), name="the times")
    weights = array(found[1], shape=(steps, steps), name="the weights")
    if times.min() < 0 or times.max() > 1 or np.abs(weights).max() > 100:
        raise Refused("a time is not in [0, 1], or a weight beyond 100")
    x = noise = r.normal(size=(UNSEEN, d))
    seen = []
    for time, row in zip(times, weights, strict=True):
        seen.append(velocity(x, time))
        x = x + sum(w * v for w, v in zip(row, seen, strict=False))
    return float(np.linalg.norm(x - _ends(velocity, noise), axis=1).mean())


@problems(feedback=FEEDBACK, final=FINAL)
def clusters(submission, rng):
    """Round groups of several sizes, near and far."""
    r = rng.numpy
    d, k = int(r.integers(2, 13)), int(r.integers(2, 13))
    centres = r.normal(size=(k, d)) * 10 ** r.uniform(-0.3, 0.5)
    spreads = 10 ** r.uniform(-1.3, -0.1, (k, 1)) * np.ones(d)
    return _cost(submission, r, _field(r.dirichlet(np.ones(k)), centres, spreads), d)


@problems(feedback=FEEDBACK, final=FINAL)
def sheets(submission, rng):
    """Groups that are long in some directions and thin in others."""
    r = rng.numpy
    d, k = int(r.integers(4, 17)), int(r.integers(2, 9))
    centres = r.normal(size=(k, d)) * 10 ** r.uniform(-0.7, 0.3)
    spreads = np.exp(r.uniform(np.log(0.02), np.log(2.0), (k, d)))
    return _cost(submission, r, _field(r.dirichlet(np.ones(k)), centres, spreads), d)


@problems(feedback=FEEDBACK, final=FINAL)
def curve(submission, rng):
    """Many small groups along a closed curve."""
    r = rng.numpy
    d, k = int(r.integers(2, 9)), 40
    angles = 2 * np.pi * np.arange(k) / k
    waves = np.concatenate([f(m * angles)[:, None] for m in (1, 2, 3) for f in (np.sin, np.cos)], 1)
    centres = waves @ (r.normal(size=(6, d)) / np.array([1, 1, 2, 2, 3, 3])[:, None])
    centres *= 10 ** r.uniform(-0.2, 0.4)
    spreads = np.full((k, d), 10 ** r.uniform(-1.5, -0.7))
    return _cost(submission, r, _field(np.full(k, 1 / k), centres, spreads), d)
