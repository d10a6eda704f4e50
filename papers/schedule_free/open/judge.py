"""Hidden: convex problems with noisy gradients, of unknown length and scale."""

import numpy as np

from rcb_env.judging import Enough, Oracle, problems

FEEDBACK, FINAL = 5, 18
LOOKS = (0.25, 0.5, 1.0)  # of the length, when the answer is looked at


def _run(submission, rng, dimension, value, gradient, best):
    """The excess at the looks, as a part of that at the start, averaged geometrically."""
    length = int(np.exp(rng.uniform(np.log(80), np.log(320))))
    looks = [max(1, round(part * length)) for part in LOOKS]
    unit = 10 ** rng.uniform(-1, 1)  # of values
    start = np.zeros(dimension)
    excess = []

    def ask(at, answer):
        ask.calls += 1
        if ask.calls in looks:
            excess.append(max(value(answer) - best, 0.0) / (value(start) - best))
        if ask.calls == length:
            raise Enough
        return unit * gradient(at)

    ask.calls = 0
    oracle = Oracle(ask, budget=None, shape=(dimension,), arguments=2)
    submission.call("optimize", gradient=oracle, start=start)
    if ask.calls < length:  # it stopped by itself: the last answer stays
        excess += [excess[-1] if excess else 1.0] * (len(looks) - len(excess))
    return float(np.exp(np.mean(np.log(np.maximum(excess, 1e-9)))))


def _newton(value, gradient, hessian, x):
    """The minimum of a smooth convex function."""
    for _ in range(60):
        g = gradient(x)
        step = np.linalg.solve(hessian(x) + 1e-10 * np.eye(len(x)), g)
        size = 1.0
        while value(x - size * step) > value(x) and size > 1e-10:
            size /= 2
        x = x - size * step
    return value(x)


@problems(feedback=FEEDBACK, final=FINAL)
def quadratic(submission, rng):
    r = rng.numpy
    d = int(r.integers(10, 40))
    curvature = r.permutation(np.arange(1, d + 1) ** -r.uniform(0.5, 1.5))
    basis = np.linalg.qr(r.normal(size=(d, d)))[0]
    matrix = (basis * curvature) @ basis.T
    target = 10 ** r.uniform(-0.7, 0.7) * r.normal(size=d)
    noise = r.uniform(0.05, 0.3) * np.sqrt(target @ matrix @ matrix @ target)

    def value(x):
        return 0.5 * (x - target) @ matrix @ (x - target)

    def gradient(x):
        return matrix @ (x - target) + noise / np.sqrt(d) * r.normal(size=d)

    return _run(submission, r, d, value, gradient, 0.0)


@problems(feedback=FEEDBACK, final=FINAL)
def logistic(submission, rng):
    r = rng.numpy
    d, n = int(r.integers(5, 25)), 400
    scale = 10 ** r.uniform(-1.0, 0.5)
    features = scale * r.normal(size=(n, d)) * np.arange(1, d + 1) ** -r.uniform(0.0, 0.8)
    truth = r.normal(size=d) * 2 / scale / np.sqrt(d)
    labels = np.where(features @ truth + r.logistic(size=n) * 0.5 > 0, 1.0, -1.0)
    ridge = 1e-3 * scale**2

    def value(x):
        return np.logaddexp(0, -labels * (features @ x)).mean() + ridge * x @ x / 2

    def slope(x, rows):
        p = 1 / (1 + np.exp(np.minimum(labels[rows] * (features[rows] @ x), 500)))
        return -(features[rows].T @ (labels[rows] * p)) / len(rows) + ridge * x

    def hessian(x):
        p = 1 / (1 + np.exp(-np.clip(features @ x, -500, 500)))
        return (features.T * (p * (1 - p))) @ features / n + ridge * np.eye(d)

    every = np.arange(n)
    best = _newton(value, lambda x: slope(x, every), hessian, np.zeros(d))
    return _run(submission, r, d, value, lambda x: slope(x, r.integers(0, n, 8)), best)


@problems(feedback=FEEDBACK, final=FINAL)
def median(submission, rng):
    """Least absolute deviations: gradients that do not shrink."""
    r = rng.numpy
    d, n = int(r.integers(5, 20)), 300
    features = r.normal(size=(n, d)) * np.arange(1, d + 1) ** -r.uniform(0.0, 0.7)
    truth = 10 ** r.uniform(-0.7, 0.7) * r.normal(size=d)
    scale = np.abs(truth).mean()
    answers = features @ truth + scale * 0.1 * r.standard_t(2, size=n)

    def value(x):
        return np.abs(features @ x - answers).mean()

    best = truth.copy()  # by reweighted least squares
    for _ in range(100):
        weights = 1 / np.maximum(np.abs(features @ best - answers), 1e-6 * scale)
        best = np.linalg.solve((features.T * weights) @ features, (features.T * weights) @ answers)

    def gradient(x):
        rows = r.integers(0, n, 8)
        return features[rows].T @ np.sign(features[rows] @ x - answers[rows]) / 8

    return _run(submission, r, d, value, gradient, value(best))
