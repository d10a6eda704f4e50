"""Facts about the outputs that follow from the paper's equations, whatever the reference says."""

from __future__ import annotations

import itertools
import math

import numpy as np

from rcb_env.cases import check

BAD, GOOD = "ValueError", None


@check("grids_of_times")
def grids_fall_from_one_to_zero(out, ref):
    cases = itertools.product((1, 2, 7, 50), out["shifts"])
    for (steps, shift), grid in zip(cases, out["shifted"]):
        even = np.linspace(1, 0, steps + 1)
        assert grid.dtype == np.float64
        assert np.allclose(grid, shift * even / (1 + (shift - 1) * even)), "not the shifted grid"
        assert grid[0] == 1 and grid[-1] == 0 and np.all(np.diff(grid) < 0)
    assert np.allclose(out["plain"], [1, 0.75, 0.5, 0.25, 0])
    assert np.allclose(out["one"], [1, 2 / 3, 1 / 3, 0])
    assert out["refused"] == [BAD] * 8 and out["accepted"] == [GOOD] * 5


@check("steps_of_solvers")
def steps_follow_their_direction(out, ref):
    for run in out["runs"]:
        h = run["times"][1] - run["times"][0]
        direction = run["velocity"]
        if run["name"] == "second":
            slope = (run["velocity"] - run["before"]) / -0.37
            direction = direction + slope * h / 2
        assert np.allclose(run["made"]["x"], run["x"] + h * direction), f"{run['name']}: wrong step"
        assert run["made"]["time"] == run["times"][1]
        assert np.array_equal(run["made"]["slope"], run["velocity"]), "the velocity is remembered"
        assert math.isclose(run["made"]["length"], h)
    assert out["orders"] == [BAD] * 5 and out["times"] == [BAD] * 4 and out["late"] == [BAD] * 2
    assert out["accepted"] == [GOOD] * 5


@check("trajectories_along_schedules")
def trajectories_are_chains_of_steps(out, ref):
    for run in out["runs"]:
        times, made = run["times"], run["made"]
        assert run["untouched"] and len(made) == len(times)
        calls = iter(zip(run["calls"], run["slopes"]))
        before = None
        for i, (here, there) in enumerate(zip(times, times[1:])):
            (x, t), slope = next(calls)
            assert t == here and np.allclose(x, made[i]), "called at a wrong place"
            direction = slope
            if run["order"] == 2 and before is not None:
                direction = slope + (there - here) / (2 * before[1]) * (slope - before[0])
            want = made[i] + (there - here) * direction
            if run["corrected"] and there > 0:
                (x, t), end = next(calls)
                assert t == there and np.allclose(x, want), "the predictor is wrong"
                want = made[i] + (there - here) * (slope + end) / 2
            assert np.allclose(made[i + 1], want), "not a step of this solver"
            before = slope, there - here
        assert next(calls, None) is None, "too many calls"


@check("trajectories_that_are_refused")
def bad_times_are_value_errors(out, ref):
    assert out["short"] == [[BAD, 0]] * 3
    assert out["outside"] == [[BAD, 0]] * 4 and out["inside"] == [[BAD, 0]] * 3
    assert out["rising"] == [BAD] * 3 and out["order"] == [BAD] * 2
    assert out["accepted"] == [[GOOD, 1], [GOOD, 1], [GOOD, 2]]


@check("errors_of_students")
def errors_are_relative_distances(out, ref):
    gaps = np.linalg.norm(out["students"] - out["teacher"], axis=-1)
    want = (gaps / np.linalg.norm(out["teacher"], axis=-1)).mean(axis=-1)
    found = out["found"]["0 3 8"]["first"]
    assert np.allclose(found, [0, *want]), "wrong relative errors"
    for name, errors in out["found"].items():
        assert len(errors["first"]) == len(errors["second"]) == len(name.split())
    assert out["refused"] == [[BAD, 0]] * 11 and out["accepted"] == [[GOOD, n] for n in (1, 2, 2)]


@check("schedules_traced_back")
def paths_follow_parents(out, ref):
    for run in out:
        steps, positions = np.array(run["parents"].shape) - [1, 0]
        path = run["path"]
        assert len(path) == steps + 1 and path[0] == 0 and path[-1] == positions - 1
        for m in range(1, steps + 1):
            assert run["parents"][m, path[m]] == path[m - 1], "not the parent"
        assert run["kind"] == "int"


@check("schedules_that_are_distilled")
def schedules_follow_the_tables(out, ref):
    for run in out["runs"]:
        schedule, costs, parents = run["schedule"], run["costs"], run["parents"]
        count, steps = len(run["grid"]), run["steps"]
        assert schedule[0] == 0 and schedule[-1] == count - 1 and len(schedule) == steps + 1
        assert all(a < b for a, b in zip(schedule, schedule[1:])), "a schedule rises"
        for m in range(steps + 1):
            for i in range(count):
                possible = m <= i <= count - 1 - (steps - m) if m else i == 0
                assert np.isfinite(costs[m, i]) == possible, "wrong positions were tried"
                assert (parents[m, i] >= 0) == (possible and m > 0)
        gap = np.square(run["final"] - run["teacher"][-1]).mean()
        assert np.isclose(costs[-1, -1], gap), "the cost of the end is not its distance"
        assert costs[0, 0] == 0 and run["untouched"]
        tried = 1 + sum(count - 1 - (steps - m) - m + 1 for m in range(1, steps))
        assert len(run["calls"]) == tried, "wrong number of calls of the network"
        assert not any(t == 0 for _, t in run["calls"])
    assert out["dtypes"] == ["torch.float64", "torch.int64", "torch.float32"]


@check("schedules_that_are_distilled")
def students_that_follow_the_schedule_reach_the_final_state(out, ref):
    for run in out["runs"]:
        if run["order"] == 1:
            times = run["grid"][run["schedule"]]
            x = run["teacher"][0] + (np.diff(times)[:, None, None] * run["velocities"]).sum(axis=0)
            assert np.allclose(run["final"], x), "the final state is not the student's"


@check("schedules_of_special_problems")
def special_problems_have_their_known_schedules(out, ref):
    assert out["still"]["schedule"] == [0, 1, 2, 5], "of equal costs the smallest position wins"
    assert np.array_equal(out["still"]["final"], np.ones((2, 2)))
    assert out["turn"]["schedule"] == [0, 2, 5], "the step must end at the turn"
    assert np.allclose(out["turn"]["final"], 2)
    assert out["refused"] == [BAD] * 6 and out["accepted"] == [GOOD] * 3 and out["broken"] == BAD


@check("errors_of_jumps")
def jumps_are_euler_steps_from_the_teacher(out, ref):
    for run in out["runs"]:
        count = len(run["grid"])
        assert [t for _, t in run["calls"]] == run["grid"][:-1].tolist(), "wrong calls"
        for j, i in itertools.product(range(count), range(count)):
            if i <= j:
                assert run["costs"][j, i] == math.inf
                continue
            landed = run["teacher"][j] + (run["grid"][i] - run["grid"][j]) * run["slopes"][j]
            want = np.square(landed - run["teacher"][i]).mean()
            assert np.isclose(run["costs"][j, i], want), "wrong cost of a jump"
    assert out["single"] == "torch.float64"


@check("paths_of_least_cost")
def no_path_is_cheaper(out, ref):
    for run in out["runs"]:
        path, total = run["path"]
        last, steps = len(run["costs"]) - 1, run["steps"]
        assert path[0] == 0 and path[-1] == last and len(path) == steps + 1
        options = [
            sum(run["costs"][a, b] for a, b in zip((0, *middle, last), (*middle, last)))
            for middle in itertools.combinations(range(1, last), steps - 1)
        ]
        assert math.isclose(total, min(options), rel_tol=1e-9), "there is a cheaper path"
        loop, cost = run["loops"]
        assert len(loop) == steps + 3 and loop[0] == 0 and loop[-1] == last
        jumps = sum(run["free"][a, b] - 1 for a, b in zip(loop, loop[1:]))
        assert math.isclose(cost, jumps, rel_tol=1e-9, abs_tol=1e-9), "not the cost of the path"
    assert out["kind"] == "float"


@check("paths_that_are_refused")
def impossible_paths_are_value_errors(out, ref):
    assert out["chain"] == ([0, 1, 2, 3], 3.0)
    assert math.isclose(out["mixed"][1], out["small"], rel_tol=1e-6), "not summed in double precision"
    assert out["single"] == [([0, 0], 1.0), ([0, 0, 0], 2.0)]
    assert out["refused"] == [BAD] * 5 and out["none"] == [BAD] * 3
    assert out["shapes"] == [BAD] * 4 and out["cubes"] == [BAD] * 2


@check("schedules_used_elsewhere")
def schedules_are_interpolated_and_matched(out, ref):
    for run in out["runs"]:
        last = len(run["times"]) - 1
        for steps, found in zip((1, 2, 3, 5, 6, 12), run["resampled"]):
            places = np.arange(steps + 1) * last / steps
            want = np.interp(places, np.arange(last + 1), run["times"].astype(np.float64))
            assert found.dtype == np.float64
            assert np.allclose(found, want), "not a linear interpolation"
        assert np.allclose(run["same"], run["times"])
    assert out["refused"] == [BAD] * 5 and out["accepted"] == [GOOD] * 3
    assert np.allclose((1 - out["flow"]) * out["sigma"], out["flow"] * out["alpha"])
    assert np.allclose(out["ends"], [0, 1, 0.5])
