"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import math

import torch

from rcb_env.cases import case, raises

NAN, INF = math.nan, math.inf


def build_embedding(tree, rng, dim=6, size=5, side=2.0):
    """An embedding with drawn codes in double precision."""
    made = tree.load("embedding").PositionEmbedding(dim, size, side).double()
    with torch.no_grad():
        made.table.copy_(rng.torch.normal(size, size, dim).double())
    return made


def build_motion(tree, rng, kind="LinearMotion", dim=6, headings=8, **settings):
    """A motion model with drawn weights in double precision."""
    made = getattr(tree.load("motion"), kind)(dim, headings, **settings).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(rng.torch.normal(*parameter.shape, std=0.4).double())
    return made


# --- embedding ---------------------------------------------------------------------------------


@case(seeds=3, covers=["src/embedding.py"])
def look_up_at_random_places(tree, rng):
    embedding = build_embedding(tree, rng)
    places = rng.torch.uniform(4, 3, 2, high=2.0).double().requires_grad_()
    codes = embedding(places)
    weights = rng.torch.normal(*codes.shape).double()
    (codes * weights).sum().backward()
    single = tree.load("embedding").PositionEmbedding(3, 2, 0.5, rng.torch.generator())
    return {
        "table": embedding.table,
        "places": places,
        "codes": codes,
        "grad_table": embedding.table.grad,
        "grad_places": places.grad,
        "one": embedding(places[0, 0]),
        "none": embedding(places[:0]),
        "float32": single(rng.torch.uniform(5, 2, high=0.5)),
        "float32_table": single.table,
    }


@case(seeds=2, covers=["src/embedding.py"])
def look_up_at_lattice_points_and_walls(tree, rng):
    embedding = build_embedding(tree, rng, dim=3, size=5, side=2.0)
    ticks = torch.arange(5, dtype=torch.float64) * 0.5
    lattice = torch.stack(torch.meshgrid(ticks, ticks, indexing="ij"), dim=-1)
    walls = torch.tensor(
        [[2.0, 0.25], [0.75, 2.0], [0.0, 1.1], [1.3, 0.0], [2.0, 2.0], [1.9, 1.8], [0.1, 0.3]]
    ).double()
    tiny = build_embedding(tree, rng, dim=2, size=2, side=1.0)
    inside, bad = [1.0, 1.0], (-1e-9, 2.0 + 1e-9, -5.0, 7.0, NAN, INF, -INF)
    return {
        "table": embedding.table,
        "lattice": embedding(lattice),
        "walls": embedding(walls),
        "tiny_table": tiny.table,
        "tiny": tiny(torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.25, 0.5], [1.0, 1.0]]).double()),
        "refused": [
            raises(lambda p=p: embedding(torch.tensor(p, dtype=torch.float64)))
            for value in bad
            for p in ([inside, [value, 1.0]], [inside, [1.0, value]], [value, 0.0])
        ],
        "accepted": [
            raises(lambda p=p: embedding(torch.tensor(p, dtype=torch.float64)))
            for p in ([0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [[2.0, 2.0]])
        ],
    }


@case(seeds=3, covers=["src/embedding.py"])
def projection_of_random_tables(tree, rng):
    found = []
    for dim, size in ((4, 3), (1, 2), (7, 2)):
        embedding = build_embedding(tree, rng, dim=dim, size=size)
        with torch.no_grad():
            embedding.table[0, 0] = -embedding.table[0, 0].abs()
            embedding.table[1, 0] = 0.0
            embedding.table[1, 1, 0] = 3.0
        before = embedding.table.detach().clone()
        identity, view = embedding.table, embedding.table.detach()
        result = embedding.project_()
        again = embedding.table.detach().clone()
        embedding.project_()
        found.append(
            {
                "before": before,
                "after": again,
                "twice": embedding.table,
                "same": embedding.table is identity and embedding.table.requires_grad,
                "result": result,
                "view": view.clone(),
            }
        )
    single = tree.load("embedding").PositionEmbedding(5, 3)
    single.project_()
    faint = []
    for size in (1e-6, 1e-12, 1e-30, 1e-40):
        for embedding in (build_embedding(tree, rng), tree.load("embedding").PositionEmbedding(6, 5)):
            with torch.no_grad():
                embedding.table.copy_(size * rng.torch.normal(5, 5, 6).double())
            embedding.project_()
            faint.append(embedding.table)
    return {"found": found, "float32": str(single.table.dtype), "faint": faint[:6]}


# --- motion ------------------------------------------------------------------------------------


@case(seeds=3, covers=["src/motion.py"])
def linear_motion_of_random_codes(tree, rng):
    found = {}
    for order in (0, 1, 2, 3, 7):
        motion = build_motion(tree, rng, order=order)
        codes = rng.torch.normal(5, 6).double().requires_grad_()
        displacement = rng.torch.normal(5, 2).double().requires_grad_()
        moved = motion(codes, displacement)
        grads = None
        if order:
            (moved * rng.torch.normal(5, 6).double()).sum().backward()
            grads = [codes.grad, motion.weights.entries.grad, displacement.grad]
        found[str(order)] = {
            "entries": motion.weights.entries,
            "codes": codes,
            "displacement": displacement,
            "moved": moved,
            "grads": grads,
            "single": motion(codes[0], displacement[0]),
            "block": motion(codes.detach().expand(2, 5, 6), displacement.expand(2, 5, 2)),
            "still": motion(codes, torch.zeros(5, 2).double()),
        }
    return found


@case(seeds=2, covers=["src/motion.py"])
def linear_motion_of_high_order_turns(tree, rng):
    motion = build_motion(tree, rng, dim=4, headings=6, order=30)
    codes = rng.torch.normal(8, 4).double()
    displacement = rng.torch.normal(8, 2).double()
    return {
        "codes": codes,
        "moved": motion(codes, displacement),
        "back": motion(motion(codes, displacement / 2), displacement / 2),
    }


@case(seeds=2, covers=["src/motion.py"])
def other_motions_of_random_codes(tree, rng):
    found = {}
    for kind in ("AdditiveMotion", "MultiplicativeMotion"):
        motion = build_motion(tree, rng, kind)
        codes, displacement = rng.torch.normal(4, 6).double(), rng.torch.normal(4, 2).double()
        found[kind] = motion(codes, displacement)
    return found


# --- losses ------------------------------------------------------------------------------------


@case(seeds=3, covers=["src/losses.py"])
def conformal_loss_of_random_codes(tree, rng):
    loss_of = tree.load("losses").conformal_loss
    found = []
    for modules, dim in ((1, 6), (2, 6), (3, 12), (4, 4)):
        before = rng.torch.normal(9, dim).double().requires_grad_()
        after = rng.torch.normal(9, dim).double().requires_grad_()
        displacement = rng.torch.normal(9, 2).double()
        scale = rng.torch.uniform(modules, low=0.3, high=3.0).double().requires_grad_()
        for reach in (0.9, 1.4, 10.0):
            loss = loss_of(before, after, displacement, scale, reach)
            found.append(
                {
                    "before": before,
                    "after": after,
                    "displacement": displacement,
                    "scale": scale,
                    "reach": reach,
                    "loss": loss,
                    "grads": list(torch.autograd.grad(loss, [before, after, scale])),
                }
            )
    return found


@case(seeds=1, covers=["src/losses.py"])
def conformal_loss_of_special_pairs(tree, rng):
    loss_of = tree.load("losses").conformal_loss
    displacement = torch.tensor([[3.0, 4.0], [0.0, 5.0], [6.0, 8.0], [0.0, 0.0]]).double()
    codes = rng.torch.normal(4, 4).double()
    scale = torch.tensor([0.5, 2.0]).double()
    same = codes.clone().requires_grad_()
    still = loss_of(same, same * 1.0, displacement, scale, 20.0)
    still.backward()
    shifted = codes + torch.tensor([3.0, 4.0, 0.0, 2.0]).double()
    start = codes.clone().requires_grad_()
    close = loss_of(start, codes + 1e-7 * rng.torch.normal(4, 4), 1e-7 * displacement, scale, 20.0)
    return {
        "codes": codes,
        "close": [1e14 * close, 1e7 * torch.autograd.grad(close, start)[0]],
        "reaches": [
            loss_of(codes, shifted, displacement, scale, r) for r in (4.999, 5.0 - 1e-8, 5.0, 9.0, 10.0, 11.0)
        ],
        "none": loss_of(codes[:3], shifted[:3], displacement[:3], scale, 1.0),
        "none_grad": torch.autograd.grad(
            loss_of(same[:3], shifted[:3], displacement[:3], scale, 1.0), same
        )[0],
        "still": still,
        "still_grad": same.grad,
        "order": loss_of(codes, shifted, displacement, scale.flip(0), 20.0),
        "one": loss_of(codes, shifted, displacement, scale[:1], 20.0),
        "float32": loss_of(
            codes.float(), shifted.float(), displacement.float(), scale.float(), 20.0
        ),
        "refused": [
            raises(lambda k=k: loss_of(codes, shifted, displacement, torch.ones(k).double(), 20.0))
            for k in (1, 2, 3, 4, 5, 8)
        ],
    }


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/losses.py"])
def transformation_loss_of_random_paths(tree, rng):
    loss_of = tree.load("losses").transformation_loss
    found = []
    for kind in ("LinearMotion", "AdditiveMotion"):
        embedding, motion = build_embedding(tree, rng), build_motion(tree, rng, kind)
        path = rng.torch.uniform(3, 5, 2, low=0.5, high=1.5).double()
        for length in (2, 3, 5):
            loss = loss_of(embedding, motion, path[:, :length])
            grads = torch.autograd.grad(loss, [embedding.table, motion.weights.entries])
            steps = path[:, 1:length] - path[:, : length - 1]
            codes = [embedding(path[:, 0])]
            for step in steps.unbind(dim=1):
                codes.append(motion(codes[-1], step))
            found.append(
                {
                    "loss": loss,
                    "grads": list(grads),
                    "carried": torch.stack(codes, dim=1),
                    "true": embedding(path[:, :length]),
                    "single": loss_of(embedding, motion, path[:1, :length]),
                }
            )
    return found


# --- training ----------------------------------------------------------------------------------


def build_model(tree, rng, modules=2):
    """A small model and a batch, in double precision."""
    embedding = build_embedding(tree, rng)
    embedding.project_()
    motion = build_motion(tree, rng, "MultiplicativeMotion")
    scales = [0.7, 1.9][:modules]
    model = tree.load("training").GridModel(embedding, motion, scales, 0.5).double()
    pairs = tree.load("trajectories").place_pairs(rng.torch.uniform(12, 4).double(), 2.0, 0.8)
    start = rng.torch.uniform(4, 2, high=2.0).double()
    turns = rng.torch.normal(4, 3).double()
    path = tree.load("trajectories").random_walks(start, turns, 0.3, 2.0)
    return model, pairs, path


def snapshot(model):
    """Copies of all parameters."""
    return {name: p.detach().clone() for name, p in model.named_parameters()}


@case(seeds=2, rtol=1e-5, atol=1e-8, covers=["src/training.py", "src/losses.py", "src/embedding.py"])
def training_by_plain_descent(tree, rng):
    train_step = tree.load("training").train_step
    found = {}
    for name, settings in (
        ("plain", {}),
        ("weighted", {"weight": 0.3}),
        ("alone", {"weight": 0.0}),
        ("clipped", {"max_norm": 0.05, "weight": 2.0}),
        ("loose", {"max_norm": 1e6}),
    ):
        model, (places, displacement), path = build_model(tree, rng)
        before = snapshot(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)  # left over from earlier
        logs = [
            train_step(model, optimizer, places, displacement, path, **settings) for _ in range(2)
        ]
        fresh = {"conformal", "transformation", "total", "grad_norm"} == set(logs[0])
        plain = all(type(value) is float for log in logs for value in log.values())
        found[name] = {
            "before": before,
            "after": snapshot(model),
            "logs": logs,
            "plain": plain and fresh,
        }
    return found


@case(seeds=2, rtol=1e-5, atol=1e-8, covers=["src/training.py"])
def training_with_frozen_parts_and_adam(tree, rng):
    train_step = tree.load("training").train_step
    model, (places, displacement), path = build_model(tree, rng, modules=1)
    model.log_scale.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    frozen = [train_step(model, optimizer, places, displacement, path) for _ in range(3)]
    after = snapshot(model)
    only_scale, pairs, paths = build_model(tree, rng)
    for part in (only_scale.embedding, only_scale.motion):
        for parameter in part.parameters():
            parameter.requires_grad_(False)
    log = train_step(
        only_scale, torch.optim.SGD([only_scale.log_scale], lr=0.2), *pairs, paths, 1.0, 0.01
    )
    # Gradients far smaller than any constant that one might add to their norm.
    faint = snapshot(only_scale)
    train_step(
        only_scale, torch.optim.SGD([only_scale.log_scale], lr=1e9), pairs[0], 1e-4 * pairs[1], paths, 0.0, 1e-9
    )
    return {
        "frozen": frozen,
        "after": after,
        "scale": only_scale.log_scale,
        "before": faint["log_scale"],
        "log": log,
    }


@case(seeds=1, covers=["src/training.py"])
def training_that_diverges(tree, rng):
    train_step = tree.load("training").train_step
    found = {}
    for name, value in (("infinite", INF), ("nan", NAN), ("fine", 0.5)):
        model, (places, displacement), path = build_model(tree, rng)
        with torch.no_grad():
            model.motion.bias.fill_(value)
        before = snapshot(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        error = raises(lambda: train_step(model, optimizer, places, displacement, path))
        after = snapshot(model)
        same = all(
            torch.equal(before[key].nan_to_num(), after[key].nan_to_num()) for key in before
        )
        found[name] = {"error": error, "same": same, "state": len(optimizer.state)}
    return found


# --- planning ----------------------------------------------------------------------------------


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/planning.py"])
def plans_on_a_torus(tree, rng):
    plan, torus = tree.load("planning").plan, tree.load("torus")
    waves = torus.fan(3, 1.0)
    rotations = []

    def motion(codes, moves):
        """Exact motion of plane waves: each pair of entries turns by its phase."""
        rotations.append(list(codes.shape) + list(moves.shape))
        phase = moves @ waves.T
        cos, sin = codes.chunk(2, dim=-1)
        return torch.cat(
            [cos * phase.cos() - sin * phase.sin(), sin * phase.cos() + cos * phase.sin()], dim=-1
        )

    found = []
    for headings, step, longest, tolerance in (
        (8, 0.1, 40, 0.0),
        (7, 0.13, 40, 0.1),
        (12, 0.05, 6, 0.0),
        (3, 0.21, 40, 0.3),
        (1, 0.1, 9, 0.0),
        (5, 0.1, 0, 0.0),
    ):
        places = rng.torch.uniform(2, 2, low=-0.6, high=0.6).double()
        start, goal = torus.wave_codes(waves, places)
        taken, codes = plan(motion, start, goal, step, headings, longest, tolerance)
        found.append(
            {
                "goal": goal,
                "start": start,
                "taken": taken,
                "codes": codes,
                "place": places,
                "settings": [headings, step, longest, tolerance],
            }
        )
    return {"plans": found, "calls": rotations}


@case(seeds=1, covers=["src/planning.py"])
def plans_at_the_edges(tree, rng):
    plan = tree.load("planning").plan

    def shift(codes, moves):
        """Codes that are coordinates, with a third entry that is left alone."""
        return torch.cat([codes[:, :2] + moves, codes[:, 2:]], dim=-1)

    offset = rng.torch.integers(-5, 5, 3).double()
    start, goal = offset, offset + torch.tensor([3.0, 4.0, 0.0]).double()
    east = offset + torch.tensor([2.0, 0.0, 0.0]).double()
    made = {
        "here": plan(shift, start, start, 0.5, 4, 10),
        "near": plan(shift, start, goal, 0.5, 4, 10, 5.0),
        "nearly": plan(shift, start, goal, 0.5, 4, 10, 4.99),
        "idle": plan(lambda codes, moves: codes * 1.0, start, goal, 0.5, 4, 10),
        "east": plan(shift, start, east, 0.5, 1, 10),
        "too far": plan(shift, start, east, 0.5, 1, 3),
        "reached": plan(shift, start, east, 0.5, 1, 10, 1.0),
        "over": plan(shift, start, start + torch.tensor([0.25, 0, 0]), 0.5, 1, 10),
        "small": plan(shift, 0 * start, 1e-9 * (goal - start), 0.5e-9, 4, 10),
        "single": plan(shift, start.float(), east.float(), 0.5, 1, 10),
    }
    weighted = start.clone().requires_grad_()
    codes = plan(shift, weighted, goal, 0.5, 4, 2)[1]
    return {
        "offset": offset,
        "made": {name: list(value) for name, value in made.items()},
        "recorded": codes.requires_grad,
        "refused": [
            raises(lambda h=h, m=m: plan(shift, start, goal, 0.5, h, m))
            for h, m in ((0, 5), (-1, 5), (4, -1), (0, 0), (1, 0), (1, 1))
        ],
    }


# --- gridness ----------------------------------------------------------------------------------


def hexagonal_map(tree, size, frequency, phase, waves=3):
    """A sum of plane waves on a lattice."""
    vectors = tree.load("torus").fan(waves, frequency)
    ticks = torch.arange(size, dtype=torch.float64)
    places = torch.stack(torch.meshgrid(ticks, ticks, indexing="ij"), dim=-1) + phase
    return (places @ vectors.T).cos().sum(dim=-1)


@case(seeds=2, rtol=1e-6, atol=1e-8, covers=["src/gridness.py"])
def autocorrelograms_of_random_maps(tree, rng):
    correlate = tree.load("gridness").autocorrelogram
    maps = [rng.torch.normal(n, n).double() for n in (2, 4, 6)]
    return {
        "maps": maps,
        "found": [correlate(m, k) for m in maps for k in (2, 4, 9)],
        "default": correlate(maps[-1]),
        "float32": correlate(rng.torch.normal(3, 3), 3),
    }


@case(seeds=1, rtol=1e-6, atol=1e-8, covers=["src/gridness.py"])
def autocorrelograms_of_flat_maps(tree, rng):
    correlate = tree.load("gridness").autocorrelogram
    half = torch.zeros(6, 6).double()
    half[4:] = rng.torch.normal(2, 6).double()
    spike = torch.zeros(4, 4).double()
    spike[1, 2] = 1.0
    return {
        "flat": correlate(torch.ones(4, 4).double(), 4),
        "half": correlate(half, 4),
        "spike": correlate(spike, 4),
    }


@case(seeds=3, rtol=1e-6, atol=1e-8, covers=["src/gridness.py"])
def gridness_of_random_correlograms(tree, rng):
    gridness = tree.load("gridness").gridness
    found = []
    for size, rings in ((11, ((1, 5), (2, 4), (3, 5))), (13, ((0, 6), (2.5, 5.5), (5, 5)))):
        for _ in range(4):
            image = rng.torch.normal(size, size).double()
            found.append([gridness(image, *ring) for ring in rings])
    holes = rng.torch.normal(11, 11).double()
    holes[rng.torch.uniform(11, 11) < 0.15] = NAN
    single = gridness(rng.torch.normal(9, 9), 1, 4)
    return {
        "found": found,
        "holes": [gridness(holes, 1, 5), gridness(holes, 0, 4)],
        "plain": all(type(value) is float for row in found for value in row),
        "close": round(single, 3) == single or abs(single) < 3,
    }


@case(seeds=2, rtol=1e-6, atol=1e-8, covers=["src/gridness.py"])
def gridness_of_patterns(tree, rng):
    module = tree.load("gridness")
    phase = rng.torch.uniform(2, high=6.0).double()
    maps = {
        "hexagons": hexagonal_map(tree, 16, 1.1, phase),
        "squares": hexagonal_map(tree, 16, 1.1, phase, 2),
        "stripes": hexagonal_map(tree, 16, 1.1, phase, 1),
    }
    scores = {}
    for name, rates in maps.items():
        correlogram = module.autocorrelogram(rates)
        scores[name] = module.gridness(correlogram, 3.0, 9.0)
    image = rng.torch.normal(9, 9).double()
    blank = image.clone()
    blank[0] = NAN
    edge = torch.full((9, 9), 1.0).double()
    wedge = rng.torch.normal(21, 21).double()
    offset = torch.arange(21) - 10
    wedge[torch.atan2(offset[:, None], offset[None, :]).abs() > 0.7] = NAN
    return {
        "scores": scores,
        "undefined": [
            module.gridness(image, 40.0, 50.0),
            module.gridness(image, 0.0, 0.5),
            module.gridness(edge, 1.0, 4.0),
            module.gridness(wedge, 3.0, 10.0),
            module.gridness(blank * NAN, 1.0, 4.0),
        ],
        "rings": [module.gridness(image, a, b) for a, b in ((2, 3), (3, 3), (2, 4), (1.5, 3.2), (2.0005, 3), (2, 2.9995))],
    }


# --- torus -------------------------------------------------------------------------------------


@case(seeds=3, rtol=1e-5, atol=1e-10, covers=["src/torus.py"])
def deviations_of_conformal_tori(tree, rng):
    torus = tree.load("torus")
    frequency = float(rng.numpy.uniform(0.8, 1.6))
    found = []
    for count in (2, 3, 5):
        waves = torus.fan(count, frequency)
        for radius, angles in ((0.5, 12), (1.0, 7), (1.7, 24), (1.3, 1), (0.9, 2)):
            values = torus.isometry_deviation(waves, radius, angles)
            found.append(
                {
                    "count": count,
                    "frequency": frequency,
                    "radius": radius,
                    "angles": angles,
                    "values": list(values),
                    "plain": all(type(value) is float for value in values),
                }
            )
    bent = torus.fan(3, frequency)
    bent[0] *= 1.5
    return {
        "found": found,
        "pairs": isinstance(torus.isometry_deviation(torus.fan(2, 1.0), 1.0, 4), tuple),
        "refused": [
            raises(lambda w=w: torus.isometry_deviation(w, 1.0, 8))
            for w in (bent, torus.fan(1, 1.0), torch.zeros(3, 2).double())
        ],
    }
