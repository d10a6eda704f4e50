"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import math

import numpy as np
import torch

from rcb_env.cases import case, raises

INF = math.inf


def fill(module, rng, std=0.4):
    """Give a module random parameters in double precision."""
    module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(rng.torch.normal(*parameter.shape, std=std))
    return module


def gradients(module):
    """The gradient of each parameter, by name; flat, as nothing says which of its axes have length 1."""
    return {name: p.grad.flatten() for name, p in module.named_parameters() if p.grad is not None}


def as_dict(prediction):
    return {"classes": prediction.classes, "masks": prediction.masks}


# --- vit -----------------------------------------------------------------------------------------


@case(seeds=2, rtol=1e-6, atol=1e-8, covers=["src/vit.py"])
def attention_with_and_without_forbidden_pairs(tree, rng):
    module = tree.load("vit")
    runs = []
    for width, heads, length in [(8, 2, 5), (6, 3, 4), (4, 1, 3), (12, 4, 12)]:
        layer = fill(module.Attention(width, heads), rng)
        x = rng.torch.normal(3, length, width).double().requires_grad_()
        allowed = rng.torch.uniform(3, length, length) < 0.6
        allowed |= torch.eye(length, dtype=torch.bool)
        free, masked = layer(x), layer(x, allowed)
        masked.square().sum().backward()
        runs.append(
            {
                "x": x,
                "qkv_weight": layer.qkv.weight,
                "qkv_bias": layer.qkv.bias,
                "out_weight": layer.out.weight,
                "out_bias": layer.out.bias,
                "heads": heads,
                "allowed": allowed,
                "free": free,
                "masked": masked,
                "everything": layer(x, torch.ones_like(allowed)),
                "large": [layer(size * x, allowed) / size for size in (1e3, 1e5)],
                "one": layer(x[:1, :1]),
                "grad": x.grad,
                "grads": gradients(layer),
            }
        )
    return runs


@case(seeds=1, rtol=1e-4, atol=1e-5, covers=["src/vit.py"])
def attention_in_single_precision(tree, rng):
    layer = fill(tree.load("vit").Attention(8, 4), rng).float()
    x = rng.torch.normal(2, 6, 8)
    itself = torch.eye(6, dtype=torch.bool).expand(2, 6, 6)
    return {"free": layer(x), "itself": layer(x, itself)}


# --- model ---------------------------------------------------------------------------------------


def make_model(tree, rng, *, size=(12, 20), depth=3, joint=2, upscales=1, registers=1, queries=4):
    encoder = tree.load("vit").Encoder(size, 4, 8, depth, 2, registers)
    model = tree.load("model").EoMT(encoder, 3, queries, joint, upscales)
    fill(model, rng)
    model.mask_probabilities.fill_(1.0)
    return model


@case(seeds=2, rtol=1e-6, atol=1e-8, covers=["src/model.py"])
def an_upscaling_block(tree, rng):
    block = fill(tree.load("model").Upscale(6), rng)
    x = rng.torch.normal(2, 6, 3, 5).double()
    y = block(x)
    y.square().sum().backward()
    return {
        "y": y,
        "square": block(x[..., :3]),
        "grads": gradients(block),
        "scale": block.norm.weight,
        "shift": block.norm.bias,
    }


@case(seeds=2, rtol=1e-6, atol=1e-8, covers=["src/model.py"])
def predictions_from_tokens(tree, rng):
    runs = []
    for upscales, registers, size in [(1, 1, (12, 20)), (2, 0, (8, 4)), (0, 3, (8, 12))]:
        model = make_model(tree, rng, upscales=upscales, registers=registers, size=size)
        grid, prefix = model.encoder.grid, model.encoder.num_prefix
        tokens = rng.torch.normal(2, 4 + prefix + grid[0] * grid[1], 8).double()
        before = tokens.clone()
        prediction = model.predict(tokens)
        other = tokens.clone()
        other[:, 4 : 4 + prefix] += 1.0
        (prediction.classes.sum() + prediction.masks.square().sum()).backward()
        runs.append(
            as_dict(prediction)
            | {
                "without prefix": as_dict(model.predict(other)),
                "untouched": torch.equal(tokens, before),
                "grads": gradients(model),
                "kind": type(prediction).__name__,
            }
        )
    return runs


@case(seeds=2, covers=["src/model.py"])
def pairs_allowed_by_masks(tree, rng):
    runs = []
    for upscales, registers, size in [(1, 1, (12, 20)), (2, 0, (8, 4)), (0, 3, (8, 12))]:
        model = make_model(tree, rng, upscales=upscales, registers=registers, size=size)
        grid = model.encoder.grid
        shape = (3, 4, grid[0] * 2**upscales, grid[1] * 2**upscales)
        masks = rng.torch.normal(*shape).double()
        masks[1, 2] = -1.0  # positive nowhere
        masks[2, 0] = 0.0  # not strictly positive anywhere
        masks[0, 3] = 1.0
        masks[1, 0] = 0.0
        masks[1, 0, : 2**upscales] = 1.0  # strictly positive in the first row of patches only
        masks[0, 1] = -1.0
        masks[0, 1, -(2**upscales) :, -(2**upscales) :] = 40.0
        on = torch.ones(3, 4, dtype=torch.bool)
        some = rng.torch.uniform(3, 4) < 0.5
        runs.append(
            {
                "grid": list(grid),
                "prefix": model.encoder.num_prefix,
                "masks": masks,
                "some": some,
                "enabled": model.attention_mask(masks, on),
                "disabled": model.attention_mask(masks, ~on),
                "mixed": model.attention_mask(masks, some),
                "faint": model.attention_mask(1e-9 * masks, on),
                "finer": model.attention_mask(
                    rng.torch.normal(3, 4, grid[0] * 8, grid[1] * 8).double(), on
                ),
            }
        )
    return runs


@case(seeds=2, rtol=1e-5, atol=1e-7, covers=["src/model.py"])
def forward_passes_in_training_and_inference(tree, rng):
    runs = {}
    for name, settings in {
        "usual": {},
        "all joint": {"depth": 2, "joint": 2, "registers": 0, "size": (8, 8)},
        "none joint": {"depth": 1, "joint": 0, "size": (8, 4)},
        "one joint": {"depth": 2, "joint": 1, "upscales": 2, "size": (8, 4)},
    }.items():
        model = make_model(tree, rng, **settings)
        images = rng.torch.normal(2, 3, *(settings.get("size", (12, 20)))).double()
        joint, queries = model.num_joint_blocks, model.num_queries
        uniforms = rng.torch.uniform(joint, 2, queries).double()
        model.mask_probabilities.copy_(torch.linspace(0.2, 0.8, joint + 2)[1:-1])
        mixed = model(images, uniforms)
        sum(p.masks.square().mean() + p.classes.square().mean() for p in mixed).backward()
        inference = model(images)
        with torch.no_grad():
            model.mask_probabilities.fill_(0.0)
            off = model(images, uniforms)
            model.mask_probabilities.fill_(1.0)
            on = model(images, uniforms)
            model.mask_probabilities.copy_(uniforms[:, 0, 0])
            strict = model(images, uniforms)
        runs[name] = {
            "mixed": [as_dict(p) for p in mixed],
            "inference": [as_dict(p) for p in inference],
            "off": [as_dict(p) for p in off],
            "on": [as_dict(p) for p in on],
            "strict": [as_dict(p) for p in strict],
            "joint": joint,
            "grads": gradients(model),
        }
    return runs


@case(seeds=1, rtol=1e-5, atol=1e-7, covers=["src/model.py"])
def zero_queries_are_still_different_from_nothing(tree, rng):
    model = make_model(tree, rng)
    images = rng.torch.normal(3, 3, 12, 20).double()
    before = images.clone()
    one = model(images[1:2])[0]
    many = model(images)[0]
    return {
        "one": as_dict(one),
        "many": as_dict(many),
        "untouched": torch.equal(images, before),
        "length": len(model(images)),
    }


# --- annealing -----------------------------------------------------------------------------------


@case(seeds=2, rtol=1e-9, atol=1e-12, covers=["src/annealing.py"])
def annealing_schedules(tree, rng):
    anneal = tree.load("annealing").annealed_probabilities
    steps = [int(s) for s in rng.numpy.integers(0, 130, 12)]
    return {
        "random": [anneal(s, 100, n) for s in steps for n in (1, 2, 3, 4)],
        "linear": [anneal(s, 100, 4, 1.0) for s in range(0, 101, 5)],
        "square": [anneal(s, 90, 2, power=2.0) for s in steps],
        "default": [anneal(s, 100, 4) for s in range(0, 121, 5)],
        "short": [anneal(s, 1, n) for s in (0, 1, 2) for n in (1, 3)],
        "odd": [anneal(s, 7, 3) for s in range(9)],
        "refused": [
            raises(lambda a=a: anneal(*a))
            for a in [(0, 0, 1), (0, -3, 2), (0, 5, 0), (0, 5, -1), (-1, 5, 2), (-7, 5, 2), (-1, 0, 0)]
        ],
        "accepted": [raises(lambda a=a: anneal(*a)) for a in [(0, 1, 1), (9, 5, 1), (1, 2, 8)]],
    }


# --- assignment ----------------------------------------------------------------------------------


@case(seeds=4, covers=["src/assignment.py"])
def assignments_of_random_costs(tree, rng):
    assign = tree.load("assignment").assign
    runs = []
    shapes = [(1, 1), (2, 2), (3, 3), (5, 5), (2, 7), (7, 2), (1, 6), (6, 1), (10, 14), (14, 10)]
    for n, m in [*shapes, (16, 16), (12, 24)]:
        for kind in ("normal", "product"):
            if kind == "normal":
                cost = rng.numpy.normal(0, 3, (n, m))
            else:  # the greedy choice is far from the best one
                cost = np.outer(rng.numpy.uniform(0, 1, n), rng.numpy.uniform(0, 1, m))
            before = cost.copy()
            rows, columns = assign(cost)
            runs.append(
                {
                    "cost": before,
                    "rows": rows,
                    "columns": columns,
                    "untouched": bool((cost == before).all()),
                    "negative": [np.asarray(part) for part in assign(-cost)],
                    "shifted": [np.asarray(part) for part in assign(cost + 1000.0)],
                }
            )
    return runs


@case(seeds=2, covers=["src/assignment.py"])
def assignments_with_ties(tree, rng):
    assign = tree.load("assignment").assign
    runs = []
    for n, m in [(4, 4), (3, 6), (6, 3), (8, 8), (9, 12)]:
        cost = rng.numpy.integers(0, 4, (n, m)).astype(float)
        rows, columns = assign(cost)
        runs.append(
            {
                "cost": cost,
                "total": float(cost[rows, columns].sum()),
                "rows": rows,
                "distinct": len(set(columns.tolist())),
            }
        )
    return runs


@case(seeds=1, covers=["src/assignment.py"])
def assignments_at_the_edges(tree, rng):
    assign = tree.load("assignment").assign
    bad = rng.numpy.normal(size=(3, 4))
    outcomes = []
    for value in (math.nan, INF, -INF):
        cost = bad.copy()
        cost[1, 2] = value
        outcomes.append(raises(lambda cost=cost: assign(cost)))
    return {
        "empty": [list(assign(np.zeros(shape))) for shape in [(0, 0), (0, 4), (4, 0)]],
        "bad values": outcomes,
        "all bad": raises(lambda: assign(np.full((2, 2), math.nan))),
        "bad shapes": [raises(lambda s=s: assign(np.zeros(s))) for s in [(3,), (), (2, 2, 2), (1, 1, 1)]],
        "good": raises(lambda: assign(bad)),
        "single": list(assign(np.array([[5.0]]))),
    }


# --- matching ------------------------------------------------------------------------------------


@case(seeds=2, rtol=1e-7, atol=1e-9, covers=["src/matching.py"])
def costs_of_pairs_of_masks(tree, rng):
    costs = tree.load("matching").mask_costs
    runs = []
    for lead, k, m, p in [((), 3, 2, 7), ((2,), 4, 4, 4), ((2, 3), 2, 3, 5), ((), 1, 1, 1), ((), 3, 0, 6)]:
        logits = rng.torch.normal(*lead, k, p, std=3.0).double().requires_grad_()
        masks = rng.torch.uniform(*lead, m, p).double()
        hard = (masks > 0.5).double()
        soft, dice = costs(logits, masks)
        (soft.sum() + 2 * dice.sum()).backward()
        runs.append(
            {
                "logits": logits,
                "masks": masks,
                "cross_entropy": soft,
                "dice": dice,
                "grad": logits.grad,
                "hard": list(costs(logits, hard)),
                "extreme": list(costs(1000.0 * logits, hard)),
                "nothing": list(costs(logits, torch.zeros_like(masks))),
                "single": list(costs(logits.float() / 10, hard.float()))[0].dtype == torch.float32,
            }
        )
    return runs


@case(seeds=3, rtol=1e-7, atol=1e-9, covers=["src/matching.py"])
def matches_of_random_queries(tree, rng):
    match = tree.load("matching").match
    runs = []
    for k, m in [(5, 3), (3, 5), (6, 6), (4, 1), (1, 4), (8, 5), (9, 7), (12, 12)]:
        classes = rng.torch.normal(k, 5, std=3.0).double().requires_grad_()
        logits = rng.torch.normal(k, 6, 8, std=2.0).double().requires_grad_()
        labels = rng.torch.integers(0, 4, m)
        masks = rng.torch.uniform(m, 12, 10) < 0.5
        generator = rng.torch.generator()
        found = match(classes, logits, labels, masks, 30, generator)
        runs.append(
            {
                "found": list(found),
                "after": torch.rand(3, generator=generator),
                "few": list(match(classes, logits, labels, masks, 4, generator)),
                "flat": list(match(0 * classes, logits, labels, masks, 40, generator)),
                "big classes": list(match(4 * classes, logits / 10, labels, masks, 9, generator)),
                "single": list(
                    match(classes.float(), logits.float(), labels, masks, 25, generator)
                ),
            }
        )
    return runs


@case(seeds=2, covers=["src/matching.py"])
def matches_that_are_plain_to_see(tree, rng):
    match = tree.load("matching").match
    # Each target is a quarter of the image; query order[i] draws quarter i and names its class.
    masks = torch.zeros(4, 8, 8, dtype=torch.bool)
    for i in range(4):
        masks[i, 4 * (i // 2) : 4 * (i // 2) + 4, 4 * (i % 2) : 4 * (i % 2) + 4] = True
    order = rng.torch.permutation(6)[:4]
    logits = torch.full((6, 8, 8), -5.0)
    logits[order] = 10.0 * masks.float() - 5.0
    labels = rng.torch.integers(0, 3, 4)
    classes = torch.zeros(6, 4)
    empty = torch.zeros(0, dtype=torch.long)
    generator = rng.torch.generator()
    by_mask = match(classes, logits, labels, masks, 64, generator)
    none = match(classes, logits, empty, masks[:0], 64, generator)
    after = torch.rand(2, generator=generator)
    distinct = torch.tensor([2, 0, 1])
    same = masks[:1].expand(3, -1, -1)
    sharp = torch.full((6, 4), -3.0)
    sharp[order[:3], distinct] = 3.0
    by_class = match(sharp, torch.zeros(6, 8, 8), distinct, same, 64, generator)
    return {
        "order": order,
        "by mask": list(by_mask),
        "none": list(none),
        "after": after,
        "by class": list(by_class),
        "no gradient": not by_class[0].requires_grad,
    }


# --- points --------------------------------------------------------------------------------------


@case(seeds=2, rtol=1e-7, atol=1e-9, covers=["src/points.py"])
def maps_read_at_points(tree, rng):
    read = tree.load("points").sample_points
    runs = []
    for n, c, h, w, p in [(2, 3, 4, 6, 5), (1, 1, 1, 1, 3), (3, 2, 5, 2, 8), (2, 0, 3, 3, 2), (0, 1, 4, 4, 3)]:
        maps = rng.torch.normal(n, c, h, w).double().requires_grad_()
        points = rng.torch.uniform(n, p, 2).double()
        values = read(maps, points)
        values.square().sum().backward()
        x, y = torch.meshgrid((torch.arange(w) + 0.5) / w, (torch.arange(h) + 0.5) / h, indexing="xy")
        centres = torch.stack([x.flatten(), y.flatten()], dim=1).double().expand(n, -1, -1)
        runs.append(
            {
                "maps": maps,
                "values": values,
                "grad": maps.grad,
                "centres": read(maps, centres),
                "corners": read(maps, torch.tensor([[0.0, 0], [1, 1], [0, 1]]).double().expand(n, 3, 2)),
                "single": read(maps.float(), points.float()).dtype == torch.float32,
            }
        )
    return runs


@case(seeds=3, rtol=1e-7, atol=1e-9, covers=["src/points.py"])
def points_where_masks_are_uncertain(tree, rng):
    choose = tree.load("points").uncertain_points
    runs = []
    for count, num in [(3, 8), (1, 1), (2, 5), (0, 6), (4, 10)]:
        logits = rng.torch.normal(count, 1, 5, 7, std=3.0).double()
        generator = rng.torch.generator()
        points = choose(logits, num, generator)
        runs.append(
            {
                "logits": logits,
                "points": points,
                "after": torch.rand(2, generator=generator),
                "all": choose(logits, num, generator, importance=1.0),
                "large": choose(1e3 * logits, num, generator, importance=1.0),
                "none": choose(logits, num, generator, importance=0.0),
                "half": choose(logits, num, generator, oversampling=5, importance=0.5),
                "plain": choose(logits, num, generator, oversampling=1, importance=1.0),
                "single": choose(logits.float(), num, generator, 2),
            }
        )
    return runs


# --- objective -----------------------------------------------------------------------------------


@case(seeds=2, rtol=1e-7, atol=1e-9, covers=["src/objective.py"])
def losses_of_masks(tree, rng):
    losses = tree.load("objective").mask_losses
    runs = []
    for shape in [(3, 6), (2, 1, 5), (2, 3, 4, 5), (4,), (0, 5)]:
        logits = rng.torch.normal(*shape, std=2.0).double().requires_grad_()
        masks = rng.torch.uniform(*shape).double()
        cross_entropy, dice = losses(logits, masks, 4)
        (cross_entropy + 3 * dice).backward()
        hard = (masks > 0.5).double()
        runs.append(
            {
                "logits": logits,
                "masks": masks,
                "cross_entropy": cross_entropy,
                "dice": dice,
                "grad": logits.grad,
                "one": list(losses(logits, masks, 1)),
                "extreme": list(losses(400.0 * logits, hard, 2)),
                "nothing": list(losses(logits, torch.zeros_like(masks), 3)),
            }
        )
    return runs


@case(seeds=2, rtol=1e-7, atol=1e-9, covers=["src/objective.py"])
def losses_of_classes(tree, rng):
    loss = tree.load("objective").class_loss
    runs = []
    for b, k, c in [(2, 3, 4), (1, 5, 1), (3, 1, 2), (4, 4, 3)]:
        logits = rng.torch.normal(b, k, c + 1).double().requires_grad_()
        labels = rng.torch.integers(0, c + 1, b, k)
        value = loss(logits, labels)
        value.backward()
        runs.append(
            {
                "logits": logits,
                "labels": labels,
                "loss": value,
                "grad": logits.grad,
                "no object": loss(logits, torch.full_like(labels, c)),
                "first": loss(logits, torch.zeros_like(labels)),
                "single": loss(logits.float(), labels).dtype == torch.float32,
            }
        )
    return runs


def batch(tree, rng, counts, queries=6, predictions=2, classes=4):
    structures = tree.load("structures")
    b = len(counts)
    made = [
        structures.Prediction(
            rng.torch.normal(b, queries, classes + 1, std=2.0).double().requires_grad_(),
            rng.torch.normal(b, queries, 6, 8, std=2.0).double().requires_grad_(),
        )
        for _ in range(predictions)
    ]
    targets = [
        structures.Target(
            rng.torch.integers(0, classes, m), rng.torch.uniform(m, 12, 10) < 0.4
        )
        for m in counts
    ]
    return made, targets


@case(seeds=3, rtol=1e-6, atol=1e-8, covers=["src/objective.py"])
def objectives_of_batches(tree, rng):
    objective = tree.load("objective").objective
    runs = {}
    for name, counts, queries, predictions in [
        ("usual", [3, 2], 6, 2),
        ("an empty image", [0, 3, 1], 5, 1),
        ("more targets than queries", [5, 2], 3, 2),
        ("no targets", [0, 0], 4, 2),
        ("one target", [0, 1], 4, 2),
    ]:
        made, targets = batch(tree, rng, counts, queries, predictions)
        generator = rng.torch.generator()
        losses = objective(made, targets, 20, generator)
        after = torch.rand(2, generator=generator)
        losses["total"].backward()
        grads = [p.classes.grad for p in made] + [p.masks.grad for p in made]
        runs[name] = {
            "losses": dict(losses),
            "after": after,
            "grads": [torch.zeros(0) if g is None else g for g in grads],
            "few points": dict(objective(made, targets, 3, rng.torch.generator())),
            "dtype": all(value.dtype == torch.float64 for value in losses.values()),
        }
    return runs


@case(seeds=2, rtol=1e-6, atol=1e-8, covers=["src/objective.py"])
def predictions_are_supervised_alike(tree, rng):
    objective = tree.load("objective").objective
    made, targets = batch(tree, rng, [2, 3], predictions=2)
    before = [t.masks.clone() for t in targets]
    generator = rng.torch.generator()
    together = objective(made, targets, 16, generator)
    generator = rng.torch.generator()
    apart = [objective([p], targets, 16, generator) for p in made]
    return {
        "together": dict(together),
        "apart": [dict(one) for one in apart],
        "untouched": all(torch.equal(a, t.masks) for a, t in zip(before, targets)),
    }


# --- inference -----------------------------------------------------------------------------------


def random_prediction(tree, rng, b=2, k=5, c=3, std=2.0):
    return tree.load("structures").Prediction(
        rng.torch.normal(b, k, c + 1, std=std).double(), rng.torch.normal(b, k, 4, 6, std=3.0).double()
    )


@case(seeds=2, rtol=1e-7, atol=1e-9, covers=["src/inference.py"])
def semantic_scores_of_random_predictions(tree, rng):
    module = tree.load("inference")
    runs = []
    for b, k, c in [(2, 5, 3), (1, 1, 1), (4, 4, 3)]:
        prediction = random_prediction(tree, rng, b, k, c)
        runs.append(
            as_dict(prediction)
            | {
                "scores": module.semantic_scores(prediction, (8, 12)),
                "same size": module.semantic_scores(prediction, (4, 6)),
                "odd": module.semantic_scores(prediction, (7, 5)),
            }
        )
    return runs


@case(seeds=2, rtol=1e-7, atol=1e-9, covers=["src/inference.py"])
def scores_of_long_images(tree, rng):
    module = tree.load("inference")
    weight = rng.torch.normal(4, 4).double()
    runs = []
    for shape, window in [
        ((3, 4, 4), 4),
        ((3, 4, 5), 4),
        ((3, 5, 4), 4),
        ((2, 4, 8), 4),
        ((2, 9, 4), 4),
        ((6, 4, 6), 4),
        ((6, 6, 4), 4),
        ((4, 4, 4), 4),
        ((1, 3, 11), 3),
        ((1, 10, 3), 3),
        ((1, 2, 9), 2),
        ((1, 1, 3), 1),
        ((2, 17, 5), 5),
    ]:
        image = rng.torch.normal(*shape).double()
        calls = []

        def score(crops):
            calls.append(crops.clone())
            n, _, h, w = crops.shape
            ramp = torch.arange(n * h * w).reshape(n, 1, h, w).double()  # differs in every window
            return torch.cat([crops.sum(1, keepdim=True) * weight[0, 0], ramp, crops[:, :1]], dim=1)

        total = module.windowed_scores(score, image, window)
        runs.append({"image": image, "scores": total, "calls": calls, "window": window})
    image = rng.torch.normal(3, 6, 8)
    return {
        "runs": runs,
        "refused": [
            raises(lambda w=w: module.windowed_scores(lambda crops: crops, image, w))
            for w in (5, 7, 8, 3, 9)
        ],
        "accepted": module.windowed_scores(lambda crops: crops, image, 6),
        "untouched": image,
    }


def instance_dicts(found):
    return [{"scores": i.scores, "labels": i.labels, "masks": i.masks} for i in found]


@case(seeds=3, rtol=1e-7, atol=1e-9, covers=["src/inference.py"])
def instances_of_random_predictions(tree, rng):
    module = tree.load("inference")
    runs = []
    for b, k, c in [(2, 5, 3), (1, 2, 1), (4, 4, 3), (3, 7, 2)]:
        prediction = random_prediction(tree, rng, b, k, c)
        prediction.masks[0, 0] = -prediction.masks[0, 0].abs() - 0.1  # an empty mask
        prediction.masks[0, 1] = 0.0  # an empty mask as well
        prediction.masks[-1, -1] = prediction.masks[-1, -1].abs() + 0.1
        prediction.masks[0, -1] = -2.0
        prediction.masks[0, -1, 2, 3] = 2.0  # a single pixel
        runs.append(
            as_dict(prediction)
            | {
                "few": instance_dicts(module.instances(prediction, (8, 12), 3)),
                "all": instance_dicts(module.instances(prediction, (7, 5), 100)),
                "one": instance_dicts(module.instances(prediction, (4, 6), 1)),
                "same size": instance_dicts(module.instances(prediction, (4, 6), 100)),
                "faint": instance_dicts(
                    module.instances(prediction._replace(masks=1e-20 * prediction.masks), (4, 6), 100)
                ),
            }
        )
    return runs


def panoptic_dicts(found):
    return [{"map": p.segment_map, "labels": list(p.labels)} for p in found]


@case(seeds=4, covers=["src/inference.py"])
def panoptic_maps_of_random_predictions(tree, rng):
    module = tree.load("inference")
    runs = []
    for b, k, c, std in [(2, 8, 3, 3.0), (2, 12, 2, 4.0), (4, 4, 3, 4.0)]:
        prediction = random_prediction(tree, rng, b, k, c, std)
        made = [
            panoptic_dicts(module.panoptic(prediction, size, stuff, *thresholds))
            for size, stuff, thresholds in [
                ((8, 12), (), ()),
                ((8, 12), {0}, (0.5, 0.2)),
                ((5, 4), {0, 1}, (0.3, 0.4)),
                ((5, 4), [1, 0, 2], (0.7, 0.0)),
                ((4, 6), {1}, (0.0, 0.1)),
                ((4, 6), (), (0.2, 0.3)),
            ]
        ]
        runs.append(as_dict(prediction) | {"made": made})
    return runs


@case(seeds=2, covers=["src/inference.py"])
def panoptic_maps_that_are_plain_to_see(tree, rng):
    module, structures = tree.load("inference"), tree.load("structures")
    order = rng.torch.permutation(3).tolist()
    sure = -30.0 * torch.ones(3, 4)

    def fuse(masks, classes, stuff=(), size=(2, 4), **thresholds):
        prediction = structures.Prediction(torch.as_tensor(classes)[None], torch.as_tensor(masks)[None])
        return panoptic_dicts(module.panoptic(prediction, size, stuff, **thresholds))[0]

    for query, label in enumerate(order):
        sure[query, label] = 30.0
    columns = torch.full((3, 2, 4), -9.0)
    columns[0, :, :2] = 9.0  # left half
    columns[1, :, 2] = 9.0
    columns[2, :, 3] = 9.0
    # Four solid columns, of which the second query, which is surer there, takes some.
    nested = torch.full((3, 2, 4), 1.0)
    nested[1] = -9.0
    nested[2] = -9.0
    half, quarter = nested.clone(), nested.clone()
    half[1, :, :2] = 5.0
    quarter[1, :, :1] = 5.0
    same = sure[[0, 0, 0]]
    even = torch.full((3, 4), -INF)
    even[:, order[0]] = 0.0
    even[:, 3] = 0.0
    # Probability exactly one half, for a class and for another one.
    pair = torch.full((3, 4), -INF)
    pair[:, 0] = 0.0
    pair[:, 1] = 0.0
    none = torch.zeros(3, 4)
    none[:, 3] = 30.0
    return {
        "order": order,
        "columns": fuse(columns, sure),
        "stuff": fuse(columns, same, stuff={order[0]}),
        "things": fuse(columns, same),
        "other stuff": fuse(columns, same, stuff={(order[0] + 1) % 3}),
        "half": [fuse(half, sure, overlap_threshold=t) for t in (0.25, 0.5, 0.51, 0.75, 1.0)],
        "quarter": [fuse(quarter, sure, overlap_threshold=t) for t in (0.5, 0.75, 0.76, 1.0)],
        "default overlap": fuse(quarter, sure),
        "tie": fuse(torch.full((3, 2, 4), 2.0), same),
        "zero": fuse(torch.zeros(3, 2, 4), sure),
        "below": fuse(torch.full((3, 2, 4), -0.01), sure),
        "one half": [fuse(columns, pair, score_threshold=t) for t in (0.4, 0.5, 0.6)],
        "no object": [fuse(columns, none, score_threshold=t) for t in (0.0, 0.8)],
        "default score": [
            fuse(columns, torch.tensor([[math.log(p), -INF, math.log(1 - p), -INF]] * 3))
            for p in (0.79, 0.81)
        ],
        "four by four": fuse(columns, sure, size=(4, 4)),
        "mixed": [
            fuse(torch.cat([columns, half]), torch.cat([sure, same]), stuff={1}, overlap_threshold=t)
            for t in (0.0, 0.5)
        ],
    }
