"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import math
import warnings

import numpy as np

from rcb_env.cases import case, raises

INF, NAN = math.inf, math.nan


def game(tree, rng, n=4, rho=0.7):
    """A well-conditioned cubic bilinear game."""
    problems = tree.load("problems")
    matrix = problems.difference_matrix(n) + 0.2 * rng.numpy.normal(size=(n, n))
    return problems.CubicBilinear(rho, matrix + np.eye(n), rng.numpy.normal(size=n))


def fairness(tree, rng, n=4, count=25, beta=0.4, lam=0.3, gamma=0.25):
    """A strongly monotone fairness problem."""
    problems = tree.load("problems")
    features = rng.numpy.normal(size=(count, n))
    labels = rng.numpy.choice([-1.0, 1.0], size=count)
    protected = rng.numpy.choice([-1.0, 1.0], size=count)
    return problems.FairClassification(features, labels, protected, beta, lam, gamma)


def monotone(rng, d, weight=1.0, skew=1.0):
    """A matrix whose symmetric part is positive definite."""
    root = rng.numpy.normal(size=(d, d))
    other = rng.numpy.normal(size=(d, d))
    return weight * root @ root.T / d + skew * (other - other.T)


def numeric_jacobian(problem, z, eps=1e-6):
    """Central differences of the operator."""
    columns = [
        (problem.operator(z + eps * e) - problem.operator(z - eps * e)) / (2 * eps)
        for e in np.eye(len(z))
    ]
    return np.stack(columns, axis=1)


class Counting:
    """A problem that counts, and remembers where its Jacobian was evaluated."""

    def __init__(self, problem):
        self.problem = problem
        self.dim = problem.dim
        self.operators = 0
        self.where = []

    def operator(self, z):
        self.operators += 1
        return self.problem.operator(z)

    def jacobian(self, z):
        self.where.append(np.array(z))
        return self.problem.jacobian(z)


@case(seeds=3, covers=["src/problems.py"])
def cubic_bilinear_games(tree, rng):
    results = {}
    for n in (1, 3, 6):
        problem = game(tree, rng, n, rho=float(rng.numpy.uniform(0.2, 3)))
        z = rng.numpy.normal(size=2 * n)
        before = z.copy()
        flat = z.copy()
        flat[:n] = 0
        close = z.copy()
        close[:n] *= 1e-9
        saddle = problem.saddle_point()
        results[str(n)] = {
            "rho": problem.rho,
            "matrix": problem.matrix,
            "offset": problem.offset,
            "z": before,
            "operator": problem.operator(z),
            "jacobian": problem.jacobian(z),
            "numeric": numeric_jacobian(problem, z),
            "operator at x = 0": problem.operator(flat),
            "jacobian at x = 0": problem.jacobian(flat),
            "curvature close to x = 0": 1e9 * problem.jacobian(close)[:n, :n],
            "saddle": saddle,
            "zero": problem.operator(saddle),
            "untouched": bool(np.array_equal(z, before)),
        }
    return results


@case(seeds=1, covers=["src/problems.py"])
def a_game_without_offset(tree, rng):
    problem = game(tree, rng, 3)
    problem.offset = np.zeros(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return {
            "saddle": problem.saddle_point(),
            "jacobian": problem.jacobian(np.zeros(6)),
            "operator": problem.operator(np.zeros(6)),
        }


@case(seeds=3, covers=["src/problems.py"])
def fairness_problems(tree, rng):
    results = {}
    for n, count, beta in [(1, 1, 0.5), (3, 20, 1.3), (6, 9, 0.0)]:
        problem = fairness(tree, rng, n, count, beta, 0.2, 0.7)
        z = rng.numpy.normal(size=n + 1)
        before = z.copy()
        quiet = z.copy()
        quiet[-1] = 0
        results[str(n)] = {
            "beta": beta,
            "features": problem.features,
            "labels": problem.labels,
            "protected": problem.protected,
            "z": before,
            "operator": problem.operator(z),
            "jacobian": problem.jacobian(z),
            "numeric": numeric_jacobian(problem, z),
            "operator at y = 0": problem.operator(quiet),
            "jacobian at y = 0": problem.jacobian(quiet),
            "jacobian at zero": problem.jacobian(np.zeros(n + 1)),
            "untouched": bool(np.array_equal(z, before)),
        }
    return results


@case(seeds=2, covers=["src/problems.py"])
def fairness_with_huge_scores(tree, rng):
    problem = fairness(tree, rng, 3, 12)
    z = 1e4 * rng.numpy.normal(size=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = {"operator": problem.operator(z), "jacobian": problem.jacobian(z)}
        z[-1] *= 1e-8  # an adversary so careful that the scores count
        return {**found, "careful": [problem.operator(z), problem.jacobian(z)]}


@case(seeds=3, rtol=1e-6, covers=["src/subproblem.py"])
def solves_with_many_shifts(tree, rng):
    module = tree.load("subproblem")
    results = []
    for d, skew in [(1, 0.0), (3, 1.0), (6, 3.0)]:
        matrix = monotone(rng, d, skew=skew)
        snapshot = module.Snapshot(matrix)
        right = rng.numpy.normal(size=d)
        before = snapshot.triangular.copy()
        shifts = [0.05, 1.0, 30.0]
        results.append(
            {
                "matrix": matrix,
                "right": right.copy(),
                "shifts": shifts,
                "solved": [snapshot.solve(shift, right) for shift in shifts],
                "faint": 1e-9 * module.Snapshot(1e-9 * matrix).solve(5e-10, right),
                "again": snapshot.solve(shifts[0], right),
                "untouched": bool(np.array_equal(before, snapshot.triangular)),
            }
        )
    return results


@case(seeds=3, rtol=1e-6, covers=["src/subproblem.py"])
def regularized_steps(tree, rng):
    module = tree.load("subproblem")
    results = []
    for d, weight, skew, size in [(1, 1, 0, 1), (3, 1, 1, 5), (5, 0.01, 2, 0.03), (4, 4, 0.1, 1e-4)]:
        matrix = monotone(rng, d, weight, skew)
        snapshot = module.Snapshot(matrix)
        force = size * rng.numpy.normal(size=d)
        before = force.copy()
        for strength in (0.1, 2.0, 50.0):
            found = module.regularized_step(snapshot, force, strength)
            results.append(
                {
                    "matrix": matrix,
                    "force": before,
                    "strength": strength,
                    "step": found.step,
                    "shift": found.shift,
                    "untouched": bool(np.array_equal(force, before)),
                }
            )
    return results


@case(seeds=2, rtol=1e-6, covers=["src/subproblem.py"])
def steps_of_faint_forces(tree, rng):
    module = tree.load("subproblem")
    snapshot = module.Snapshot(monotone(rng, 4))
    found = []
    for size in (1e-6, 1e-9, 1e-13, 1e-30):
        step, shift = module.regularized_step(snapshot, size * rng.numpy.normal(size=4), 3.0)
        found.append({"step": step / size, "shift": float(shift) / size})
    return found


@case(seeds=4, rtol=1e-6, covers=["src/subproblem.py"])
def coarse_steps(tree, rng):
    module = tree.load("subproblem")
    results = []
    for d, skew in [(1, 0.0), (3, 0.5), (5, 2.0)]:
        snapshot = module.Snapshot(monotone(rng, d, skew=skew))
        force = rng.numpy.normal(size=d)
        for strength in (0.3, 4.0):
            for tolerance in (0.999, 0.8, 0.4, 0.1, 0.02, 1e-3):
                found = module.regularized_step(snapshot, force, strength, tolerance)
                results.append({"step": found.step, "shift": found.shift})
    return results


@case(seeds=1, rtol=1e-6, covers=["src/subproblem.py"])
def steps_at_the_edges(tree, rng):
    module = tree.load("subproblem")
    step = module.regularized_step
    snapshot = module.Snapshot(monotone(rng, 3))
    force = rng.numpy.normal(size=3)
    nothing = np.zeros(3)
    rest = step(snapshot, nothing, 2.0)
    flat = step(module.Snapshot(np.zeros((3, 3))), force, 2.0)
    turn = step(module.Snapshot(np.array([[0.0, 1.0], [-1.0, 0.0]])), np.array([3.0, 4.0]), 2.0)
    still = step(module.Snapshot(np.zeros((3, 3))), nothing, 2.0)
    unit = step(snapshot, np.array([1.0, 0.0, 0.0]), 1.0)
    # All numbers are exact: the bracket is [0.5, 1] here, [2, 6] there, and 4 is the solution.
    narrow = step(module.Snapshot(np.array([[1.5]])), np.array([1.0]), 1.0, 0.5)
    wide = module.Snapshot(np.diag([5.0, 15.0, 2.0, 1.0, 1.0]))
    exact = step(wide, np.array([36.0, 0.0, 0.0, 0.0, 0.0]), 1.0, 0.5)
    return {
        "still": {"step": still.step, "shift": float(still.shift)},
        "unit": {"step": unit.step, "shift": float(unit.shift)},
        "narrow": float(narrow.shift),
        "exact": float(exact.shift),
        "rest": {"step": rest.step, "shift": float(rest.shift)},
        "flat": {"step": flat.step, "shift": float(flat.shift)},
        "turn": {"step": turn.step, "shift": float(turn.shift)},
        "force": force,
        "fine": float(step(snapshot, force, 1.0, 1e-14).shift),
        "strength": [
            raises(lambda v=v: step(snapshot, force, v)) for v in (0.0, -1.0, INF, -INF, NAN, 1e-3)
        ],
        "tolerance": [
            raises(lambda v=v: step(snapshot, force, 1.0, v))
            for v in (0.0, -1.0, 1e-15, 1.0, 1.5, NAN, 1e-14, 0.99)
        ],
        "at rest": [
            raises(lambda: step(snapshot, nothing, -1.0)),
            raises(lambda: step(snapshot, nothing, 1.0, 2.0)),
            raises(lambda: step(snapshot, nothing, 1.0)),
        ],
    }


def report(run):
    """All fields of a run."""
    return {
        "solution": run.solution,
        "last": run.last,
        "half_points": run.half_points,
        "shifts": run.shifts,
        "jacobians": int(run.jacobians),
        "converged": bool(run.converged),
    }


@case(seeds=3, rtol=1e-5, covers=["src/lazy_newton.py"])
def runs_on_games(tree, rng):
    run = tree.load("lazy_newton").lazy_extra_newton
    problem = game(tree, rng, 3)
    start = rng.numpy.normal(size=6)
    results = {}
    for iterations, period in [(1, 1), (1, 5), (4, 1), (7, 3), (6, 2), (5, 50)]:
        counting = Counting(problem)
        before = start.copy()
        found = report(run(counting, start, iterations, period, 2.5))
        found["where"] = np.array(counting.where)
        found["operators"] = counting.operators
        found["untouched"] = bool(np.array_equal(before, start))
        found["iterations"], found["period"] = iterations, period
        found["start"] = before
        found["recomputed"] = [problem.operator(half) for half in found["half_points"]]
        results[f"{iterations} by {period}"] = found
    return results


@case(seeds=3, rtol=1e-5, covers=["src/lazy_newton.py"])
def runs_on_fairness(tree, rng):
    run = tree.load("lazy_newton").lazy_extra_newton
    problem = fairness(tree, rng, 3)
    start = rng.numpy.normal(size=4)
    size = np.linalg.norm(problem.operator(start))
    results = {}
    for name, tolerance in [("never", 0.0), ("soon", size / 10), ("at once", 1.5 * size)]:
        for period in (1, 3):
            counting = Counting(problem)
            found = report(run(counting, start, 8, period, 1.5, tolerance))
            found["operators"] = counting.operators
            found["evaluated"] = len(counting.where)
            found["residual"] = float(np.linalg.norm(problem.operator(found["solution"])))
            found["tolerance"] = float(tolerance)
            results[f"{name}, {period}"] = found
    return results


@case(seeds=1, rtol=1e-5, covers=["src/lazy_newton.py"])
def runs_at_the_edges(tree, rng):
    run = tree.load("lazy_newton").lazy_extra_newton
    problem = game(tree, rng, 2)
    problem.offset = np.zeros(2)
    start = rng.numpy.normal(size=4)
    zero = report(run(problem, np.zeros(4), 3, 1, 1.0))
    exact = float(np.linalg.norm(problem.operator(start)))

    def refused(**changed):
        settings = {"iterations": 2, "period": 1, "strength": 1.0, "tolerance": 0.0, **changed}
        return raises(lambda: run(problem, start, **settings))

    close = report(run(problem, 1e-14 * start, 1, 1, 1.0))
    close["half_points"], close["shifts"] = 1e14 * close["half_points"], 1e14 * close["shifts"]
    return {
        "zero": zero,
        "close": close,
        "integers": report(run(problem, np.array([1, 2, 0, -1]), 3, 2, 1.0)),
        "exact": report(run(problem, start, 3, 1, 1.0, exact)),
        "iterations": [refused(iterations=n) for n in (0, -1, 1)],
        "period": [refused(period=n) for n in (0, -1, 1)],
        "strength": [refused(strength=v) for v in (0.0, -1.0, INF, NAN, 0.5)],
        "tolerance": [refused(tolerance=v) for v in (-1e-9, NAN, 0.0, INF)],
        "refused at zero": [
            *[raises(lambda v=v: run(problem, np.zeros(4), 3, 1, v)) for v in (-1, -0.5, 0, INF, NAN)],
            raises(lambda: run(problem, np.zeros(4), 3, 0, 1.0)),
        ],
    }


def restart_report(found):
    """All fields of a restarted run."""
    return {
        "solution": found.solution,
        "residuals": found.residuals,
        "lengths": found.lengths,
        "iterations": int(found.iterations),
        "jacobians": int(found.jacobians),
    }


@case(seeds=3, rtol=1e-5, atol=1e-7, covers=["src/restart.py"])
def restarts_on_fairness(tree, rng):
    restart = tree.load("restart").lazy_extra_newton_restart
    problem = fairness(tree, rng, 3)
    start = rng.numpy.normal(size=4)
    size = float(np.linalg.norm(problem.operator(start)))
    results = {"size": size}
    for name, epochs, period, radius, shrink, tolerance in [
        ("none", 0, 2, 2.3, False, 0.0),
        ("one", 1, 2, 2.3, False, 0.0),
        ("some", 3, 2, 1.9, False, 0.0),
        ("shrinking", 4, 3, 4.1, True, 0.0),
        ("stopping", 6, 2, 1.9, False, size / 30),
        ("stopping and shrinking", 5, 2, 5.1, True, size / 200),
        ("done before", 4, 2, 1.9, True, 2 * size),
    ]:
        counting = Counting(problem)
        before = start.copy()
        found = restart(counting, start, epochs, period, 0.8, radius, 0.31, shrink, tolerance)
        results[name] = restart_report(found)
        results[name]["evaluated"] = len(counting.where)
        results[name]["untouched"] = bool(np.array_equal(start, before))
        results[name]["start"] = before
        results[name]["final"] = float(np.linalg.norm(problem.operator(found.solution)))
    plain = restart(problem, start, 2, 2, 0.8, 1.9, 0.31)
    results["defaults"] = restart_report(plain)
    return results


@case(seeds=1, covers=["src/restart.py"])
def restarts_at_the_edges(tree, rng):
    restart = tree.load("restart").lazy_extra_newton_restart
    problem = fairness(tree, rng, 2)
    start = rng.numpy.normal(size=3)

    def refused(**changed):
        settings = {"epochs": 1, "period": 1, "strength": 1.0, "radius": 0.7, "mu": 0.9, **changed}
        return raises(lambda: restart(problem, start, **settings))

    whole = restart(problem, np.array([1, -1, 2]), 0, 1, 1.0, 1.0, 1.0)
    return {
        "whole": restart_report(whole),
        "epochs": [refused(epochs=n) for n in (-1, -3, 0, 1)],
        "radius": [refused(radius=v) for v in (0.0, -1.0, INF, NAN, 0.2)],
        "mu": [refused(mu=v) for v in (0.0, -1.0, INF, NAN, 5.0)],
        "strength": [refused(strength=v) for v in (0.0, -1.0, INF, NAN, 0.3)],
        "whole lengths": restart_report(restart(problem, start, 2, 1, 0.5, 1.0, 1.0)),
        "inner": [refused(period=0), refused(tolerance=-1.0)],
        "not run": [refused(epochs=0, period=0), refused(epochs=0, strength=-1.0)],
    }


@case(seeds=4, covers=["src/gap.py"])
def gaps_of_points(tree, rng):
    gap = tree.load("gap").restricted_gap
    results = []
    for n in (1, 3, 5):
        problem = game(tree, rng, n, rho=float(rng.numpy.uniform(0.2, 3)))
        saddle = problem.saddle_point()
        far = 1.5 * float(np.linalg.norm(saddle))
        z = rng.numpy.normal(size=2 * n)
        lazy = z.copy()
        lazy[n:] = 0
        radii = [0.1, 1.0, 5.0, 100.0]
        results.append(
            {
                "rho": problem.rho,
                "matrix": problem.matrix,
                "offset": problem.offset,
                "z": z,
                "radii": radii,
                "gaps": [gap(problem, z, radius) for radius in radii],
                "y = 0": [gap(problem, lazy, radius) for radius in radii],
                "saddle": gap(problem, saddle, far),
                "refused": [raises(lambda v=v: gap(problem, z, v)) for v in (0.0, -1.0, INF, NAN)],
            }
        )
    return results


@case(seeds=3, covers=["src/gap.py"])
def periods_that_cost_least(tree, rng):
    cheapest = tree.load("gap").cheapest_period
    found = [cheapest(d, 1.0, 1.0) for d in (1, 2, 3)]
    found.append(cheapest(1, 5.0, 1.2))
    for _ in range(60):
        dim = int(rng.numpy.integers(2, 40))
        first_order = float(rng.numpy.uniform(0.1, 2000))
        base = float(rng.numpy.uniform(1, 60))
        found.append(cheapest(dim, first_order, base))
    return {"periods": [int(m) for m in found], "large": int(cheapest(200, 1.0, 1000.37))}
