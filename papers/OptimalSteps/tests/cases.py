"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import math

import torch

from rcb_env.cases import case, raises


def doubles(rng, *shape, std=1.0):
    """Normal values in double precision."""
    return rng.torch.normal(*shape, std=std).double()


def make_field(tree, rng, size=3):
    """The velocity field of a random mixture of three Gaussians."""
    means = doubles(rng, 3, size, std=1.5)
    return tree.load("velocity").mixture_velocity(means, 0.3)


class Watched:
    """Writes down what a field is called with."""

    def __init__(self, field):
        self.field = field
        self.calls = []

    def __call__(self, x, t):
        self.calls.append([x.clone(), float(t)])
        return self.field(x, t)


def make_grid(tree, steps, shift=2.0):
    """A shifted grid that does not depend on the code under test."""
    even = torch.arange(steps, -1, -1, dtype=torch.float64) / steps
    return shift * even / (1 + (shift - 1) * even)


def make_teacher(rng, field, grid, batch=4, size=3):
    """An Euler trajectory and some noise around it, made without the code under test."""
    x = doubles(rng, batch, size)
    points = [x]
    for here, there in zip(grid.tolist(), grid.tolist()[1:]):
        x = x + (there - here) * field(x, here)
        points.append(x)
    teacher = torch.stack(points)
    teacher[1:] += doubles(rng, len(grid) - 1, batch, size, std=0.02)
    return teacher


@case(seeds=2, covers=["src/grids.py"])
def grids_of_times(tree, rng):
    grid = tree.load("grids").shifted_grid
    shifts = rng.torch.uniform(3, low=0.2, high=6.0).tolist()
    return {
        "shifts": shifts,
        "shifted": [grid(steps, shift) for steps in (1, 2, 7, 50) for shift in shifts],
        "plain": grid(4),
        "one": grid(3, 1.0),
        "extreme": [grid(4, shift) for shift in (1e-20, 1e-9, 1e9, 1e20)],
        "faint": [grid(4, shift) / shift for shift in (1e-20, 1e-9)],
        "refused": [
            raises(lambda a=a: grid(*a))
            for a in ((0,), (-1,), (3, 0.0), (3, -0.5), (3, -2.0), (3, math.inf), (3, math.nan), (0, -1.0))
        ],
        "accepted": [raises(lambda a=a: grid(*a)) for a in ((1,), (2,), (3, 0.5), (1, 0.01), (5, 9))],
    }


@case(seeds=3, covers=["src/solvers.py"])
def steps_of_solvers(tree, rng):
    module = tree.load("solvers")
    runs = []
    for batch, size in ((3, 2), (1, 5)):
        x, slope, before = (doubles(rng, batch, size) for _ in range(3))
        times = sorted(rng.torch.uniform(2).tolist(), reverse=True)
        fresh = module.State(x, times[0])
        used = module.State(x, times[0], before, -0.37)
        for name, state, order in (
            ("euler", fresh, 1),
            ("first", fresh, 2),
            ("euler again", used, 1),
            ("second", used, 2),
        ):
            made = module.advance(state, slope, times[1], order)
            runs.append(
                {
                    "name": name,
                    "x": x,
                    "velocity": slope,
                    "before": before,
                    "times": times,
                    "made": made._asdict(),
                    "length": made.time - times[0],
                }
            )

    def outcome(order=1, time=0.2, start=0.5):
        zeros = torch.zeros(2, 2)
        return raises(lambda: module.advance(module.State(zeros, start), zeros, time, order))

    return {
        "runs": runs,
        "orders": [outcome(order) for order in (0, 3, -1, -2, 4)],
        "times": [outcome(time=time) for time in (0.5, 0.6, 1.0, math.nan)],
        "late": [outcome(2, 0.5), outcome(2, 0.7)],
        "accepted": [outcome(1), outcome(2), outcome(1, 0.0), outcome(2, 0.499), outcome(1, -0.2)],
    }


@case(seeds=2, rtol=1e-7, atol=1e-10, covers=["src/trajectory.py"])
def trajectories_along_schedules(tree, rng):
    module = tree.load("trajectory")
    runs = []
    for batch, steps in ((4, 5), (1, 1)):
        field = Watched(make_field(tree, rng))
        noise = doubles(rng, batch, 3)
        for times in (make_grid(tree, steps).tolist(), [0.9, 0.6, 0.1], [0.5, 0.2]):
            for order, corrected in ((1, False), (2, False), (1, True), (2, True)):
                field.calls.clear()
                before = noise.clone()
                made = module.sample_trajectory(field, noise, times, order, corrected)
                runs.append(
                    {
                        "times": times,
                        "order": order,
                        "corrected": corrected,
                        "made": made,
                        "calls": [list(call) for call in field.calls],
                        "slopes": [field.field(*call) for call in field.calls],
                        "untouched": torch.equal(before, noise),
                    }
                )
    default = module.sample_trajectory(field, noise, [1.0, 0.4, 0.3])
    wave = Watched(lambda x, t: (x + 1e6 * t).sin())
    made = module.sample_trajectory(wave, noise, [0.5, 0.2, 1e-8, 0.0], 2, True)
    runs.append({**runs[-1], "times": [0.5, 0.2, 1e-8, 0.0], "order": 2, "corrected": True, "made": made})
    runs[-1]["calls"] = [list(call) for call in wave.calls]
    runs[-1]["slopes"] = [wave.field(*call) for call in wave.calls]
    return {"runs": runs, "default": default}


@case(seeds=1, covers=["src/trajectory.py"])
def trajectories_that_are_refused(tree, rng):
    module = tree.load("trajectory")
    calls = []

    def outcome(*times, order=1):
        def field(x, t):
            calls.append(t)
            return -x

        calls.clear()
        found = raises(
            lambda: module.sample_trajectory(field, torch.ones(1, 2), list(times), order)
        )
        return [found, len(calls)]

    return {
        "short": [outcome(), outcome(1.0), outcome(0.0)],
        "outside": [outcome(1.5, 0.5), outcome(0.5, -0.5), outcome(1.01, 0.0), outcome(2.0, -1.0)],
        "inside": [outcome(0.9, 1.2, 0.5), outcome(math.nan, 0.1), outcome(1.0, 0.5, -0.1)],
        "rising": [outcome(0.2, 0.6)[0], outcome(0.5, 0.5)[0], outcome(0.9, 0.1, 0.4)[0]],
        "order": [outcome(1.0, 0.0, order=3)[0], outcome(1.0, 0.0, order=0)[0]],
        "accepted": [outcome(1.0, 0.0), outcome(1, 0), outcome(0.9, 0.5, 0.2)],
    }


@case(seeds=3, rtol=1e-7, atol=1e-10, covers=["src/trajectory.py"])
def errors_of_students(tree, rng):
    module = tree.load("trajectory")
    field, grid = make_field(tree, rng), make_grid(tree, 8)
    teacher = make_teacher(rng, field, grid)
    found = {}
    for schedule in ((0, 8), (0, 3, 8), (0, 1, 2, 5, 8), (0, 1, 2, 3, 4, 5, 6, 7, 8)):
        name = " ".join(map(str, schedule))
        found[name] = {
            "first": module.schedule_errors(field, teacher, grid, list(schedule)),
            "second": module.schedule_errors(field, teacher, grid, schedule, 2),
        }

    faint = {
        "first": module.schedule_errors(lambda x, t: -x, 1e-7 * teacher, grid, [0, 4, 8]),
        "second": module.schedule_errors(lambda x, t: -x, 1e-7 * teacher, grid, [0, 2, 8], 2),
    }

    def outcome(*schedule):
        watched = Watched(field)
        found = raises(lambda: module.schedule_errors(watched, teacher, grid, list(schedule)))
        return [found, len(watched.calls)]

    times = grid.tolist()
    half = teacher[0] + (times[3] - times[0]) * field(teacher[0], times[0])
    end = half + (times[8] - times[3]) * field(half, times[3])
    return {
        "found": found,
        "faint": faint,
        "students": torch.stack([half, end]),
        "teacher": teacher[[3, 8]],
        "refused": [
            outcome(*s)
            for s in (
                *((1, 8), (1, 3, 8), (0, 7), (0, 3), (0, 3, 3, 8), (0, 5, 4, 8)),
                *((-1, 8), (0, 9), (0, -1), (0, -3, 8), ()),
            )
        ],
        "accepted": [outcome(*s) for s in ((0, 8), (0, 7, 8), (0, 1, 8))],
    }


@case(seeds=3, covers=["src/search.py"])
def schedules_traced_back(tree, rng):
    trace = tree.load("search").trace_back
    runs = []
    for steps, positions in ((1, 2), (3, 6), (4, 5), (2, 9)):
        parents = torch.full((steps + 1, positions), -1)
        for m in range(1, steps + 1):
            for i in range(m, positions):
                parents[m, i] = int(rng.torch.integers(m - 1, i, 1))
        parents[1] = 0
        path = trace(parents)
        runs.append({"parents": parents, "path": path, "kind": type(path[0]).__name__})
    return runs


@case(seeds=2, rtol=1e-6, atol=1e-12, covers=["src/search.py"])
def schedules_that_are_distilled(tree, rng):
    module = tree.load("search")
    runs = []
    for intervals, steps, batch, order in (
        (7, 3, 4, 1),
        (7, 3, 2, 2),
        (6, 1, 3, 1),
        (5, 5, 2, 2),
        (8, 4, 1, 2),
        (1, 1, 2, 1),
        (9, 2, 3, 2),
    ):
        field, grid = Watched(make_field(tree, rng)), make_grid(tree, intervals)
        teacher = make_teacher(rng, field.field, grid, batch)
        before = teacher.clone()
        found = module.distill(field, teacher, grid, steps, order)
        runs.append(
            {
                **found._asdict(),
                "steps": steps,
                "order": order,
                "grid": grid,
                "teacher": teacher,
                "calls": [list(call) for call in field.calls],
                "untouched": torch.equal(before, teacher),
                "velocities": velocities(field.field, teacher, grid, found.schedule),
            }
        )
    default = module.distill(field.field, teacher, grid, 3)
    single = module.distill(
        lambda x, t: field.field(x.double(), t).float(), teacher.float(), grid, 2
    )
    return {
        "runs": runs,
        "default": default.schedule,
        "dtypes": [str(x.dtype) for x in (single.costs, single.parents, single.final)],
    }


def velocities(field, teacher, grid, schedule):
    """The velocities along a first-order student."""
    x, found = teacher[0], []
    for here, there in zip(schedule, schedule[1:]):
        found.append(field(x, grid[here].item()))
        x = x + (grid[there] - grid[here]) * found[-1]
    return torch.stack(found)


@case(seeds=1, covers=["src/search.py"])
def schedules_of_special_problems(tree, rng):
    module = tree.load("search")
    grid = make_grid(tree, 5, 1.0)
    still = module.distill(lambda x, t: torch.zeros_like(x), torch.ones(6, 2, 2), grid, 3)
    # A teacher that turns at position 2: the first step must stop there.
    x = torch.zeros(6, 1, 1, dtype=torch.float64)
    x[:, 0, 0] = torch.tensor([0.0, 1.0, 2.0, 2.0, 2.0, 2.0])
    turn = module.distill(
        lambda x, t: torch.full_like(x, -5.0 if t > 0.7 else 0.0), x, grid, 2
    )

    def outcome(steps, points=6):
        return raises(
            lambda: module.distill(lambda x, t: -x, torch.ones(points, 2, 2), grid, steps)
        )

    # Costs of NaN, costs too large for single precision, and costs that are nearly the same.
    x = rng.torch.normal(6, 2, 2)
    holes = module.distill(lambda x, t: x * (math.nan if 0.5 < t < 0.9 else -1.0), x.double(), grid, 3)
    far = torch.tensor([1.0, 1e25, 1e25, 1.0, 1.0, 1.0]).reshape(6, 1, 1) * x
    large = module.distill(lambda x, t: -x, far, grid, 3)
    faint = module.distill(lambda x, t: -x, 1e-6 * x.double(), grid, 3)
    return {
        "holes": [holes.schedule, holes.costs, holes.parents],
        "large": [large.schedule, large.costs.log(), large.parents],
        "faint": [faint.schedule, 1e12 * faint.costs, faint.parents],
        "still": still._asdict(),
        "turn": turn._asdict(),
        "refused": [outcome(0), outcome(-1), outcome(6), outcome(7), outcome(2, 5), outcome(2, 7)],
        "accepted": [outcome(1), outcome(5), outcome(3)],
        "broken": raises(
            lambda: module.distill(lambda x, t: -x, torch.ones(0, 2, 2), grid[:0], 1)
        ),
    }


@case(seeds=3, rtol=1e-7, atol=1e-12, covers=["src/shortest_path.py"])
def errors_of_jumps(tree, rng):
    module = tree.load("shortest_path")
    runs = []
    for intervals, batch in ((5, 3), (1, 2), (3, 1), (4, 6)):
        field, grid = Watched(make_field(tree, rng)), make_grid(tree, intervals)
        teacher = make_teacher(rng, field.field, grid, batch)
        costs = module.jump_costs(field, teacher, grid)
        runs.append(
            {
                "costs": costs,
                "teacher": teacher,
                "grid": grid,
                "calls": [list(call) for call in field.calls],
                "slopes": torch.stack([field.field(*call) for call in field.calls]),
            }
        )
    single = module.jump_costs(
        lambda x, t: field.field(x.double(), t).float(), teacher.float(), grid
    )
    dense = 0.5 - 1e-7 * torch.arange(4, dtype=torch.float64)
    still = rng.torch.normal(4, 2, 2)
    fast = module.jump_costs(lambda x, t: 1e7 + 0 * x, still, dense)
    large = module.jump_costs(lambda x, t: -x, 1e25 * still, grid[:4])
    return {"runs": runs, "single": str(single.dtype), "fast": fast, "large": large.log()}


@case(seeds=4, covers=["src/shortest_path.py"])
def paths_of_least_cost(tree, rng):
    path = tree.load("shortest_path").cheapest_path
    runs = []
    for count in (3, 5, 7):
        costs = rng.torch.uniform(count, count, low=0.1, high=5.0).double()
        later = torch.triu(torch.ones(count, count), diagonal=1) > 0
        ordered = torch.where(later, costs, math.inf)
        for steps in range(1, count):
            runs.append(
                {
                    "costs": ordered,
                    "free": costs,
                    "steps": steps,
                    "path": path(ordered, steps),
                    "loops": path(costs - 1.0, steps + 2),
                }
            )
    return {"runs": runs, "kind": type(runs[0]["path"][1]).__name__}


@case(seeds=1, covers=["src/shortest_path.py"])
def paths_that_are_refused(tree, rng):
    path = tree.load("shortest_path").cheapest_path
    chain = torch.full((4, 4), math.inf, dtype=torch.float64)
    chain[0, 1] = chain[1, 2] = chain[2, 3] = 1.0
    free = torch.ones(1, 1, dtype=torch.float64)
    mixed = chain.float()
    small = rng.torch.uniform(1, low=0.2, high=0.8).item()
    mixed[0, 1], mixed[1, 2], mixed[2, 3] = 2.0**26, small, -(2.0**26)

    def outcome(costs, steps):
        return raises(lambda: path(costs, steps))

    return {
        "chain": path(chain, 3),
        "small": small,
        "mixed": path(mixed, 3),
        "single": [path(free, steps) for steps in (1, 2)],
        "refused": [outcome(chain, steps) for steps in (0, -1, 1, 2, 4)],
        "none": [outcome(free, 0), outcome(free, -1), outcome(free * math.inf, 1)],
        "shapes": [
            outcome(x, 1)
            for x in (torch.ones(2, 3), torch.ones(3, 2), torch.ones(1, 2), torch.ones(2, 1))
        ],
        "cubes": [outcome(torch.ones(2, 2, 2), 1), outcome(torch.ones(3), 1)],
    }


@case(seeds=3, covers=["src/transfer.py"])
def schedules_used_elsewhere(tree, rng):
    module = tree.load("transfer")
    runs = []
    for count in (2, 4, 7):
        times = rng.torch.uniform(count).sort(descending=True).values
        runs.append(
            {
                "times": times,
                "resampled": [module.resampled(times, steps) for steps in (1, 2, 3, 5, 6, 12)],
                "same": module.resampled(times.double(), count - 1),
            }
        )

    def outcome(count, steps):
        return raises(lambda: module.resampled(torch.linspace(1, 0, count), steps))

    alpha, sigma = rng.torch.uniform(2, 3).double(), rng.torch.uniform(2, 3).double()
    return {
        "runs": runs,
        "refused": [outcome(*x) for x in ((3, 0), (3, -1), (1, 2), (0, 2), (1, 0))],
        "accepted": [outcome(*x) for x in ((2, 1), (3, 1), (2, 2))],
        "alpha": alpha,
        "sigma": sigma,
        "flow": module.flow_time(alpha, sigma),
        "faint": [module.flow_time(size * alpha, size * sigma) for size in (1e-9, 1e-30)],
        "ends": module.flow_time(torch.tensor([1.0, 0.0, 0.5]), torch.tensor([0.0, 1.0, 0.5])),
    }
