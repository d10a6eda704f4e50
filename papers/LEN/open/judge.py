"""Hidden: convex-concave problems, and what an answer costs until the operator is small."""

import numpy as np

from rcb_env.judging import Enough, Oracle, problems

FEEDBACK, FINAL = 4, 16
TARGET = 1e-4  # of the operator's norm at the start
MOST = 60.0  # costs in Jacobians, after which a run is over


def _run(submission, r, operator, jacobian, start):
    """The cost until the operator is small; costs of what is missing are added where it never is."""
    d = len(start)
    first = np.linalg.norm(operator(start))
    state = {"cost": 0.0, "best": 1.0}

    def look(z, value):
        state["best"] = min(state["best"], np.linalg.norm(value) / first)
        if state["best"] <= TARGET or state["cost"] >= MOST:
            raise Enough

    def ask_operator(z):
        state["cost"] += 1.0 / d
        value = operator(z)
        look(z, value)
        return value

    def ask_jacobian(z):
        state["cost"] += 1.0
        if state["cost"] >= MOST:
            raise Enough
        return jacobian(z)

    # The Lipschitz constant of the Jacobian around the start, from pairs of points.
    bend = 0.0
    for _ in range(20):
        one, step = start + r.normal(size=d), r.normal(size=d) * 0.3
        change = jacobian(one + step) - jacobian(one)
        bend = max(bend, np.linalg.norm(change, 2) / np.linalg.norm(step))
    submission.call(
        "solve",
        operator=Oracle(ask_operator, budget=None, shape=(d,)),
        jacobian=Oracle(ask_jacobian, budget=None, shape=(d,)),
        start=start,
        bend=float(bend),
    )
    # A digit that is missing costs a third of all of them may.
    missing = np.log10(max(state["best"], TARGET) / TARGET)
    return float((state["cost"] if state["best"] <= TARGET else MOST) * (1 + missing / 3))


def _monotone(r, d):
    """Dimensions, a coupling with a wide spectrum, and a point."""
    n = d // 2
    left = np.linalg.qr(r.normal(size=(n, n)))[0]
    right = np.linalg.qr(r.normal(size=(n, n)))[0]
    values = np.exp(r.uniform(np.log(0.03), 0.0, n))
    return n, (left * values) @ right.T


@problems(feedback=FEEDBACK, final=FINAL)
def quartic(submission, rng):
    """Fourth powers along twice as many directions as there are variables: no change of variables parts them."""
    r = rng.numpy
    d = int(r.choice([20, 30, 40]))
    n, coupling = _monotone(r, d)
    rows = 2 * n
    a, b = r.normal(size=(2, rows, n)) / np.sqrt(rows)
    weight = 10 ** r.uniform(-1.0, 1.0)
    ridge = 10 ** r.uniform(-4, -2)
    shift = r.normal(size=(2, rows))

    def operator(z):
        x, y = z[:n], z[n:]
        gx = weight * a.T @ (a @ x + shift[0]) ** 3 + coupling @ y + ridge * x
        gy = -weight * b.T @ (b @ y + shift[1]) ** 3 + coupling.T @ x - ridge * y
        return np.concatenate([gx, -gy])

    def jacobian(z):
        def bend(matrix, offset, x):
            slope = 3 * weight * (matrix @ x + offset) ** 2
            return (matrix.T * slope) @ matrix + ridge * np.eye(n)

        upper, lower = bend(a, shift[0], z[:n]), bend(b, shift[1], z[n:])
        return np.block([[upper, coupling], [-coupling.T, lower]])

    start = r.normal(size=d) * 10 ** r.uniform(-0.5, 0.7)
    return _run(submission, r, operator, jacobian, start)


@problems(feedback=FEEDBACK, final=FINAL)
def ridges(submission, rng):
    """Sums of hyperbolic cosines' logarithms: straight far out, bent near some hyperplanes."""
    r = rng.numpy
    d = int(r.choice([20, 30, 40]))
    n, coupling = _monotone(r, d)
    rows = 2 * n
    a, b = r.normal(size=(2, rows, n)) / np.sqrt(n)
    sharp = 10 ** r.uniform(-0.3, 0.7)
    ridge = 10 ** r.uniform(-3, -1.5)
    shift = r.normal(size=(2, rows))

    def operator(z):
        x, y = z[:n], z[n:]
        gx = a.T @ np.tanh(sharp * (a @ x + shift[0])) + coupling @ y + ridge * x
        gy = -b.T @ np.tanh(sharp * (b @ y + shift[1])) + coupling.T @ x - ridge * y
        return np.concatenate([gx, -gy])

    def jacobian(z):
        def bend(matrix, offset, x):
            slope = sharp * (1 - np.tanh(sharp * (matrix @ x + offset)) ** 2)
            return (matrix.T * slope) @ matrix + ridge * np.eye(n)

        upper, lower = bend(a, shift[0], z[:n]), bend(b, shift[1], z[n:])
        return np.block([[upper, coupling], [-coupling.T, lower]])

    return _run(submission, r, operator, jacobian, 2 * r.normal(size=d))


@problems(feedback=FEEDBACK, final=FINAL)
def soft_game(submission, rng):
    """Log-sum-exp against log-sum-exp: flat far out, and bent in the middle."""
    r = rng.numpy
    d = int(r.choice([16, 24, 36]))
    n, coupling = _monotone(r, d)
    rows = 2 * n
    a, b = r.normal(size=(rows, n)), r.normal(size=(rows, n))
    sharp = 10 ** r.uniform(-0.5, 0.7)
    ridge = 10 ** r.uniform(-3, -1.5)
    shift = r.normal(size=(2, rows))

    def soft(matrix, offset, x):
        t = sharp * (matrix @ x + offset)
        w = np.exp(t - t.max())
        return w / w.sum()

    def operator(z):
        x, y = z[:n], z[n:]
        gx = a.T @ soft(a, shift[0], x) + coupling @ y + ridge * x
        gy = -b.T @ soft(b, shift[1], y) + coupling.T @ x - ridge * y
        return np.concatenate([gx, -gy])

    def jacobian(z):
        def bend(matrix, offset, x):
            w = soft(matrix, offset, x)
            mean = matrix.T @ w
            return sharp * ((matrix.T * w) @ matrix - np.outer(mean, mean)) + ridge * np.eye(n)

        upper, lower = bend(a, shift[0], z[:n]), bend(b, shift[1], z[n:])
        return np.block([[upper, coupling], [-coupling.T, lower]])

    return _run(submission, r, operator, jacobian, 2 * r.normal(size=d))
