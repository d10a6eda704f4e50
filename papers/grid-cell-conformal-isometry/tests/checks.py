"""Facts about the outputs that follow from the paper's equations, whatever the reference says."""

from __future__ import annotations

import math

import numpy as np

from rcb_env.cases import check


def bilinear(table, place, side):
    """Interpolation of one place, by the definition."""
    spacing = side / (len(table) - 1)
    total = 0.0
    for i in range(len(table)):
        for j in range(len(table)):
            hat = max(0.0, 1 - abs(place[0] / spacing - i)) * max(0.0, 1 - abs(place[1] / spacing - j))
            total = total + hat * table[i, j]
    return total


@check("look_up_at_random_places")
def a_look_up_is_a_sum_of_hat_functions(out, ref):
    places = out["places"].reshape(-1, 2)
    want = np.stack([bilinear(out["table"], p, 2.0) for p in places])
    assert np.allclose(out["codes"].reshape(want.shape), want, atol=1e-9)
    assert out["none"].shape == (0, 3, 6)
    assert np.allclose(out["one"], want[0], atol=1e-9)


@check("look_up_at_lattice_points_and_walls")
def lattice_points_have_the_codes_of_the_table(out, ref):
    assert np.allclose(out["lattice"], out["table"], atol=1e-9)
    assert np.allclose(out["walls"][4], out["table"][4, 4], atol=1e-9)
    assert np.allclose(out["tiny"][[0, 1, 3]], out["tiny_table"][[0, 1, 1], [1, 0, 1]], atol=1e-9)


@check("look_up_at_lattice_points_and_walls")
def places_outside_are_refused(out, ref):
    assert out["refused"] == ["ValueError"] * 21
    assert out["accepted"] == [None] * 4


@check("projection_of_random_tables")
def projected_codes_are_rates_of_length_one(out, ref):
    for run in out["found"]:
        before, after = run["before"], run["after"]
        assert np.all(after >= 0)
        assert np.allclose(np.linalg.norm(after, axis=-1), 1)
        assert np.allclose(after, run["twice"])
        assert np.allclose(after[0, 0], 1 / math.sqrt(after.shape[-1])), "nothing positive: all equal"
        some = (before > 0).any(axis=-1)
        assert np.all((after > 0)[some] == (before > 0)[some])
        assert run["same"], "the table must be changed in place"


@check("linear_motion_of_random_codes")
def the_series_is_that_of_the_exponential(out, ref):
    for order, run in out.items():
        entries, size = run["entries"], len(run["entries"])
        for code, (dx, dy), moved in zip(run["codes"], run["displacement"], run["moved"]):
            turns = math.atan2(dy, dx) / (2 * math.pi) * size
            low = math.floor(turns)
            raw = (1 - turns + low) * entries[low % size] + (turns - low) * entries[(low + 1) % size]
            turn = (raw - raw.T) / 2 * math.hypot(dx, dy)
            want = sum(
                np.linalg.matrix_power(turn, k) @ code / math.factorial(k)
                for k in range(int(order) + 1)
            )
            assert np.allclose(moved, want, atol=1e-8), f"order {order} is wrong"
        assert np.allclose(run["still"], run["codes"]), "without motion the code stays"


@check("linear_motion_of_high_order_turns")
def a_long_series_keeps_lengths_and_composes(out, ref):
    lengths = [np.linalg.norm(out[key], axis=-1) for key in ("codes", "moved")]
    assert np.allclose(*lengths, rtol=1e-6), "a rotation keeps lengths"
    assert np.allclose(out["moved"], out["back"], rtol=1e-6, atol=1e-8)


@check("conformal_loss_of_random_codes")
def the_conformal_loss_is_its_formula(out, ref):
    for run in out:
        modules = len(run["scale"])
        change = (run["after"] - run["before"]).reshape(9, modules, -1)
        length = np.linalg.norm(run["displacement"], axis=-1)
        errors = (np.linalg.norm(change, axis=-1) - length[:, None] * run["scale"]) ** 2
        near = length <= run["reach"]
        want = errors.sum(axis=1)[near].mean() if near.any() else 0.0
        assert np.allclose(run["loss"], want, rtol=1e-6)


@check("conformal_loss_of_random_codes")
def the_conformal_loss_depends_on_the_change_alone(out, ref):
    for run in out:
        before, after, scale = run["grads"]
        assert np.allclose(before, -after, atol=1e-9)
        length = np.linalg.norm(run["displacement"], axis=-1)
        far = length > run["reach"]
        assert np.all(before[far] == 0), "pairs beyond the reach must not count"


@check("conformal_loss_of_special_pairs")
def conformal_losses_that_can_be_computed_by_hand(out, ref):
    def total(*lengths):
        return np.mean([(5 - r / 2) ** 2 + (2 - 2 * r) ** 2 for r in lengths])

    want = [total(0), total(0), total(5, 5, 0), total(5, 5, 0), total(5, 5, 10, 0), total(5, 5, 10, 0)]
    assert np.allclose(out["reaches"], want)
    assert out["none"] == 0
    assert np.all(out["none_grad"] == 0)
    assert np.all(out["still_grad"] == 0), "equal codes have no direction to move"
    assert np.allclose(out["still"], np.mean([4.25 * r**2 for r in (5, 5, 10, 0)]))
    assert out["refused"] == [None, None, "ValueError", None, "ValueError", "ValueError"]


@check("transformation_loss_of_random_paths")
def the_transformation_loss_compares_carried_codes(out, ref):
    for run in out:
        errors = ((run["carried"] - run["true"])[:, 1:] ** 2).sum(axis=-1)
        assert np.allclose(run["loss"], errors.mean(), rtol=1e-6)
        assert np.allclose(run["single"], errors[0].mean(), rtol=1e-6)


@check("training_by_plain_descent")
def steps_of_descent_have_the_length_of_the_gradient(out, ref):
    weights = {"plain": 1.0, "weighted": 0.3, "alone": 0.0, "clipped": 2.0, "loose": 1.0}
    for name, run in out.items():
        for log in run["logs"]:
            want = log["conformal"] + weights[name] * log["transformation"]
            assert math.isclose(log["total"], want, rel_tol=1e-9), f"{name}: wrong total"
        table = run["after"]["embedding.table"]
        assert np.allclose(np.linalg.norm(table, axis=-1), 1), "the codes must be projected"
        assert np.all(table >= 0)
        assert run["plain"], "the log must hold plain floats"
    moved = sum(
        np.sum((out["clipped"]["after"][key] - value) ** 2)
        for key, value in out["clipped"]["before"].items()
        if "table" not in key
    )
    assert math.sqrt(moved) <= 2 * 0.1 * 0.05 * (1 + 1e-6), "two clipped steps went too far"
    assert all(log["grad_norm"] > 0.05 for log in out["clipped"]["logs"])


@check("training_that_diverges")
def a_loss_that_is_not_finite_changes_nothing(out, ref):
    for name in ("infinite", "nan"):
        assert out[name] == {"error": "FloatingPointError", "same": True, "state": 0}
    assert out["fine"]["error"] is None
    assert not out["fine"]["same"]


@check("plans_on_a_torus")
def plans_come_nearer_with_every_step(out, ref):
    for run in out["plans"]:
        headings, step, longest, tolerance = run["settings"]
        distance = np.linalg.norm(run["codes"] - run["goal"], axis=-1)
        assert np.all(np.diff(distance) < 0), "a step of a plan must come nearer"
        assert np.all(distance[:-1] > tolerance), "a plan goes on after its arrival"
        assert len(run["taken"]) <= longest
        assert len(run["codes"]) == len(run["taken"]) + 1
        assert np.all((run["taken"] >= 0) & (run["taken"] < headings))
        assert run["taken"].dtype == np.int64
        assert np.allclose(run["codes"][0], run["start"])
        assert np.allclose(np.linalg.norm(run["codes"], axis=-1), 1)


@check("plans_at_the_edges")
def plans_that_can_be_followed_by_hand(out, ref):
    steps = {name: len(value[0]) for name, value in out["made"].items()}
    assert steps["here"] == steps["near"] == steps["idle"] == 0
    assert steps["nearly"] == 1
    assert steps["east"] == steps["single"] == 4
    assert steps["too far"] == 3
    assert steps["reached"] == 2
    assert steps["over"] == 0
    end = out["made"]["east"][1][-1] - out["offset"]
    assert np.allclose(end, [2, 0, 0])
    assert out["refused"] == ["ValueError"] * 4 + [None] * 2
    assert out["recorded"] is False


@check("autocorrelograms_of_random_maps")
def autocorrelograms_are_symmetric_correlations(out, ref):
    found = iter(out["found"])
    for rates in out["maps"]:
        n = len(rates)
        for least in (2, 4, 9):
            image = next(found)
            assert image.shape == (2 * n - 1, 2 * n - 1)
            for p in range(1 - n, n):
                for q in range(1 - n, n):
                    value = image[n - 1 + p, n - 1 + q]
                    pairs = [
                        (rates[i, j], rates[i - p, j - q])
                        for i in range(n)
                        for j in range(n)
                        if 0 <= i - p < n and 0 <= j - q < n
                    ]
                    if len(pairs) < least:
                        assert math.isnan(value), "too few points for a correlation"
                    else:
                        want = np.corrcoef(np.array(pairs).T)[0, 1]
                        assert math.isclose(value, want, abs_tol=1e-7)


@check("autocorrelograms_of_flat_maps")
def parts_that_do_not_vary_have_no_correlation(out, ref):
    assert np.all(np.isnan(out["flat"]))
    assert np.isnan(out["half"][3, 5]), "a lag of -2 rows leaves a flat part"
    assert math.isclose(out["half"][5, 5], 1)
    assert math.isclose(out["spike"][3, 3], 1)


@check("gridness_of_patterns")
def hexagons_score_higher_than_squares_and_stripes(out, ref):
    scores = out["scores"]
    assert scores["hexagons"] > 0.5
    assert scores["squares"] < 0.2
    assert scores["stripes"] < 0.2
    assert all(math.isnan(value) for value in out["undefined"])


@check("deviations_of_conformal_tori")
def the_hexagonal_torus_is_isotropic(out, ref):
    for run in out["found"]:
        theta = np.arange(run["angles"]) * 2 * math.pi / run["angles"]
        turn = np.arange(run["count"]) * math.pi / run["count"]
        phase = run["frequency"] * run["radius"] * np.cos(theta[:, None] - turn)
        distance = np.sqrt(np.mean(2 - 2 * np.cos(phase), axis=1))
        factor = run["frequency"] / math.sqrt(2)
        deviation, variance = run["values"]
        assert math.isclose(
            deviation, np.mean((distance - factor * run["radius"]) ** 2), rel_tol=1e-5, abs_tol=1e-12
        )
        assert math.isclose(variance, np.var(distance), rel_tol=1e-5, abs_tol=1e-12)
        assert run["plain"]
    variance = {
        run["count"]: run["values"][1]
        for run in out["found"]
        if run["angles"] == 24
    }
    assert variance[3] < variance[2] / 10, "hexagons should treat directions more alike"
    assert out["refused"] == ["ValueError"] * 3
