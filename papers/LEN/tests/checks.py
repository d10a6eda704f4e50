"""Unit tests on the outputs of the cases, for the judge."""

from __future__ import annotations

import math

import numpy as np

from rcb_env.cases import check

BAD = "ValueError"


@check("cubic_bilinear_games")
def the_jacobian_of_a_game_is_the_derivative_of_its_operator(out, ref):
    for run in out.values():
        assert run["untouched"], "z was changed in place"
        assert np.allclose(run["jacobian"], run["numeric"], atol=1e-6), "wrong Jacobian"
        n = len(run["offset"])
        matrix = run["matrix"]
        zero = np.zeros((n, n))
        want = np.block([[zero, matrix.T], [-matrix, zero]])
        assert np.allclose(run["jacobian at x = 0"], want), "wrong Jacobian at x = 0"


@check("cubic_bilinear_games")
def the_operator_of_a_game_vanishes_at_the_saddle_point(out, ref):
    for run in out.values():
        n = len(run["offset"])
        x, y = run["z"][:n], run["z"][n:]
        want = run["rho"] / 2 * math.sqrt(x @ x) * x + y @ run["matrix"]
        assert np.allclose(run["operator"][:n], want), "wrong gradient in x"
        assert np.allclose(run["operator"][n:], run["offset"] - run["matrix"] @ x)
        assert np.allclose(run["zero"], 0, atol=1e-9), "the saddle point is no zero"


@check("fairness_problems")
def the_jacobian_of_fairness_is_the_derivative_of_its_operator(out, ref):
    for run in out.values():
        assert run["untouched"], "z was changed in place"
        assert np.allclose(run["jacobian"], run["numeric"], atol=1e-6), "wrong Jacobian"
        jacobian = run["jacobian"]
        assert np.allclose(jacobian[:-1, -1], -jacobian[-1, :-1]), "the coupling is skew"
        assert np.allclose(jacobian[:-1, :-1], jacobian[:-1, :-1].T)


@check("fairness_problems")
def the_operator_of_fairness_is_the_gradient_of_the_objective(out, ref):
    def objective(run, z):
        scores = run["features"] @ z[:-1]
        mine = np.log1p(np.exp(-run["labels"] * scores))
        other = np.log1p(np.exp(-run["protected"] * z[-1] * scores))
        return np.mean(mine - run["beta"] * other) + 0.2 * z[:-1] @ z[:-1] - 0.7 * z[-1] ** 2

    for run in out.values():
        z = run["z"]
        signs = np.ones(len(z))
        signs[-1] = -1
        numeric = [
            (objective(run, z + 1e-6 * e) - objective(run, z - 1e-6 * e)) / 2e-6
            for e in np.eye(len(z))
        ]
        assert np.allclose(run["operator"], signs * numeric, atol=1e-7), "not the gradient"


@check("fairness_with_huge_scores")
def huge_scores_stay_finite(out, ref):
    assert np.isfinite(out["operator"]).all()
    assert np.isfinite(out["jacobian"]).all()


@check("solves_with_many_shifts")
def solutions_solve_the_shifted_system(out, ref):
    for run in out:
        assert run["untouched"], "the Schur form was changed by a solve"
        assert np.allclose(run["again"], run["solved"][0])
        for shift, solved in zip(run["shifts"], run["solved"]):
            shifted = run["matrix"] + shift * np.eye(len(solved))
            assert solved.dtype == np.float64
            assert np.allclose(shifted @ solved, run["right"], atol=1e-8), "wrong solution"


@check("regularized_steps")
def the_shift_is_the_strength_times_the_length_of_the_step(out, ref):
    for run in out:
        assert run["untouched"], "the force was changed in place"
        length = np.linalg.norm(run["step"])
        assert math.isclose(run["shift"], run["strength"] * length, rel_tol=1e-7), "wrong shift"
        shifted = run["matrix"] + run["shift"] * np.eye(len(run["step"]))
        residual = shifted @ run["step"] + run["force"]
        assert np.linalg.norm(residual) < 1e-7 * np.linalg.norm(run["force"]), "wrong step"


@check("steps_at_the_edges")
def steps_with_a_closed_form(out, ref):
    assert out["rest"]["step"].tolist() == [0, 0, 0]
    assert out["rest"]["shift"] == 0
    assert out["still"]["step"].tolist() == [0, 0, 0]
    assert out["still"]["shift"] == 0
    assert out["narrow"] == 0.75, "a bracket as wide as the tolerance is narrow enough"
    assert out["exact"] == 5, "a middle that is no larger becomes the lower end"
    size = np.linalg.norm(out["force"])
    assert math.isclose(out["flat"]["shift"], math.sqrt(2 * size), rel_tol=1e-8)
    assert np.allclose(out["flat"]["step"], -out["force"] / math.sqrt(2 * size))
    # A rotation: shift^2 (1 + shift^2) = (2 * 5)^2.
    want = math.sqrt((math.sqrt(401) - 1) / 2)
    assert math.isclose(out["turn"]["shift"], want, rel_tol=1e-8)


@check("steps_at_the_edges")
def bad_settings_of_a_step_are_value_errors(out, ref):
    assert out["strength"] == [BAD] * 5 + [None]
    assert out["tolerance"] == [BAD] * 6 + [None] * 2
    assert out["at rest"] == [BAD, BAD, None]


@check("runs_on_games")
def an_iterate_is_the_start_minus_all_extra_steps(out, ref):
    for name, run in out.items():
        assert run["untouched"], "the start was changed in place"
        moves = np.array(run["recomputed"]) / run["shifts"][:, None]
        assert np.allclose(run["last"], run["start"] - moves.sum(axis=0)), f"{name}: wrong iterate"
        weights = 1 / run["shifts"]
        want = weights @ run["half_points"] / weights.sum()
        assert np.allclose(run["solution"], want), f"{name}: wrong average"


@check("runs_on_games")
def jacobians_are_evaluated_once_a_period(out, ref):
    for name, run in out.items():
        want = math.ceil(run["iterations"] / run["period"])
        assert run["jacobians"] == want, f"{name}: wrong number of Jacobians"
        assert len(run["where"]) == want
        assert run["operators"] == 2 * run["iterations"], f"{name}: wrong number of operators"
        assert np.allclose(run["where"][0], run["start"])
        assert not run["converged"]


@check("runs_on_fairness")
def converged_runs_answer_with_their_last_iterate(out, ref):
    for name, run in out.items():
        assert run["jacobians"] == run["evaluated"]
        steps = len(run["shifts"])
        assert run["half_points"].shape == (steps, 4)
        if name.startswith("never"):
            assert steps == 8
            assert not run["converged"]
        else:
            assert run["converged"], f"{name}: the run should converge"
            assert np.array_equal(run["solution"], run["last"])
            assert run["residual"] <= run["tolerance"] * (1 + 1e-9)
            assert run["operators"] == 2 * steps + 1
        if name.startswith("at once"):
            assert steps == 0 and run["jacobians"] == 0


@check("runs_at_the_edges")
def bad_settings_of_a_run_are_value_errors(out, ref):
    assert out["zero"]["converged"] and out["exact"]["converged"]
    assert out["zero"]["half_points"].shape == (0, 4)
    assert out["iterations"] == [BAD, BAD, None]
    assert out["period"] == [BAD, BAD, None]
    assert out["strength"] == [BAD] * 4 + [None]
    assert out["tolerance"] == [BAD] * 2 + [None] * 2
    assert out["refused at zero"] == [BAD] * 6


@check("restarts_on_fairness")
def epochs_have_the_length_of_the_theory(out, ref):
    for name, radius in [("some", 1.9), ("one", 2.3)]:
        want = math.ceil((2 * 0.8 * radius / 0.31) ** (2 / 3))
        assert set(out[name]["lengths"].tolist()) == {want}, f"{name}: wrong lengths"
        assert out[name]["iterations"] == want * len(out[name]["lengths"])
    lengths = out["shrinking"]["lengths"]
    want = [math.ceil((2 * 0.8 * 4.1 / 0.31 / 2**e) ** (2 / 3)) for e in range(4)]
    assert lengths.tolist() == want
    assert lengths.dtype == np.int64
    assert out["none"]["solution"].tolist() == out["none"]["start"].tolist()
    assert out["done before"]["iterations"] == 0
    assert len(out["done before"]["lengths"]) == 1


@check("restarts_on_fairness")
def restarts_drive_the_operator_to_zero(out, ref):
    for name, run in out.items():
        if name in ("size", "defaults"):
            continue
        assert run["untouched"], "the start was changed in place"
        assert len(run["residuals"]) == len(run["lengths"]) + 1
        assert run["jacobians"] == run["evaluated"]
        assert math.isclose(run["residuals"][0], out["size"], rel_tol=1e-9)
        assert math.isclose(run["residuals"][-1], run["final"], rel_tol=1e-6, abs_tol=1e-12)
    assert out["some"]["residuals"][-1] < 0.01 * out["size"]
    assert out["stopping"]["residuals"][-1] <= out["size"] / 30


@check("restarts_at_the_edges")
def bad_settings_of_restarts_are_value_errors(out, ref):
    assert out["epochs"] == [BAD, BAD, None, None]
    assert out["radius"] == [BAD] * 4 + [None]
    assert out["mu"] == [BAD] * 4 + [None]
    assert out["strength"] == [BAD] * 4 + [None]
    assert out["inner"] == [BAD] * 2
    assert out["not run"] == [None, BAD]
    assert out["whole"]["solution"].dtype == np.float64
    assert out["whole"]["lengths"].dtype == np.int64


@check("gaps_of_points")
def gaps_are_at_least_what_sampled_opponents_reach(out, ref):
    for run in out:
        rho, matrix, offset = run["rho"], run["matrix"], run["offset"]
        n = len(offset)
        x, y = run["z"][:n], run["z"][n:]
        rng = np.random.default_rng(0)
        points = rng.normal(size=(400, n))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        for radius, gap in zip(run["radii"], run["gaps"]):
            others = points * radius * rng.uniform(0, 1, size=(400, 1))
            cubes = rho / 6 * np.linalg.norm(others, axis=1) ** 3
            high = rho / 6 * np.linalg.norm(x) ** 3 + (others @ (matrix @ x - offset)).max()
            low = (cubes + (others @ matrix.T - offset) @ y).min()
            assert gap >= high - low - 1e-9, "an opponent does better than the gap says"
        assert run["refused"] == [BAD] * 4
        assert abs(run["saddle"]) < 1e-8, "the gap of the saddle point is zero"


@check("periods_that_cost_least")
def the_cheapest_period_is_about_half_the_dimension(out, ref):
    assert out["periods"][0] == 1
    assert out["periods"][3] == 1, "no period is longer than the dimension"
    assert 90 <= out["large"] <= 110
