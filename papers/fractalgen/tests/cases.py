"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import math

import torch

from rcb_env.cases import case, raises


def fill(module, rng, std=0.3):
    """Give a module random parameters in double precision."""
    module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(rng.torch.normal(*parameter.shape, std=std))
    return module


def gradients(module):
    """The gradient of each parameter, by name."""
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


# --- patches -------------------------------------------------------------------------------------


@case(seeds=2, covers=["src/patches.py"])
def images_cut_and_joined(tree, rng):
    module = tree.load("patches")
    runs = []
    for shape, size in [((2, 3, 4, 4), 2), ((1, 1, 6, 4), 2), ((3, 2, 3, 9), 3), ((2, 3, 2, 2), 1), ((1, 3, 4, 4), 4)]:
        images = rng.torch.integers(0, 50, *shape)
        patches = module.split(images, size)
        rows = shape[2] // size
        other = rng.torch.normal(*patches.shape)
        joined = module.join(other, rows)
        runs.append(
            {
                "images": images,
                "patches": patches,
                "joined": module.join(patches, rows),
                "floats": joined,
                "again": module.split(joined, size),
                "other": other,
            }
        )
    images = rng.torch.normal(1, 3, 6, 8)
    sizes = (1, 2, 3, 4, 5, 7, 12)
    return {"runs": runs, "refused": [raises(lambda s=s: module.split(images, s)) for s in sizes]}


@case(seeds=2, covers=["src/patches.py"])
def outputs_and_their_neighbours(tree, rng):
    beside = tree.load("patches").with_neighbours
    runs = []
    for b, rows, columns, d in [(2, 2, 2, 3), (1, 3, 2, 2), (2, 2, 4, 1), (2, 1, 1, 3), (1, 1, 4, 2)]:
        outputs = rng.torch.normal(b, rows * columns, d).requires_grad_()
        found = {"free": beside(outputs, rows, False), "causal": beside(outputs, rows, True)}
        (found["free"] * rng.torch.normal(*found["free"].shape)).sum().backward()
        runs.append(found | {"outputs": outputs, "grad": outputs.grad, "size": [rows, columns]})
    return runs


# --- order ---------------------------------------------------------------------------------------


@case(seeds=2, covers=["src/order.py"])
def masks_from_orders(tree, rng):
    masks = tree.load("order").masks_of_ratio
    runs = []
    for b, n in [(4, 4), (3, 9), (2, 1), (5, 16)]:
        orders = torch.stack([rng.torch.permutation(n) for _ in range(b)])
        ratios = rng.torch.uniform(b).double()
        runs.append(
            {
                "orders": orders,
                "ratios": ratios,
                "mask": masks(orders, ratios),
                "none": masks(orders, torch.zeros(b)),
                "all": masks(orders, torch.ones(b)),
                "too much": masks(orders, torch.full((b,), 1.7)),
                "half": masks(orders, torch.full((b,), 0.5)),
                "just above": masks(orders, ((n // 2 + 1e-9) / n + torch.zeros(b)).double() + 1e-9),
            }
        )
    return runs


@case(seeds=2, rtol=1e-7, atol=1e-9, covers=["src/order.py"])
def ratios_from_uniform_numbers(tree, rng):
    ratios = tree.load("order").truncated_ratios
    u = rng.torch.uniform(50).double()
    ends = torch.tensor([0.0, 1.0, 0.5]).double()
    return {
        "u": u,
        "default": ratios(u),
        "ends": ratios(ends),
        "other": ratios(u, 0.3, 0.7, -0.2, 0.9),
        "other ends": ratios(ends, 0.3, 0.7, -0.2, 0.9),
        "high": ratios(u, mean=0.0, std=2.0, low=1.0, high=5.0),
        "matrix": ratios(u.reshape(5, 10)),
        "single": ratios(torch.tensor([0.25, 0.5])),
    }


@case(seeds=2, covers=["src/order.py"])
def steps_of_masked_levels(tree, rng):
    counts = tree.load("order").cosine_counts
    pairs = [(int(n), int(s)) for n, s in rng.numpy.integers(1, 70, (25, 2))]
    few = [(n, s) for n in (1, 2, 3, 4, 9, 16, 52, 64) for s in (1, 2, 3, 4, 6, 8, 20, 39)]
    return {
        "pairs": [list(pair) for pair in pairs + few],
        "counts": [list(counts(*pair)) for pair in pairs + few],
        "refused": [raises(lambda p=p: counts(*p)) for p in [(0, 1), (-3, 2), (1, 0), (4, -1), (0, 0)]],
        "accepted": [raises(lambda p=p: counts(*p)) for p in [(1, 1), (1, 5), (5, 1)]],
    }


@case(seeds=2, covers=["src/order.py"])
def guided_draws(tree, rng):
    draw = tree.load("order").draw
    runs = []
    for g, b, v in [(1, 6, 5), (2, 6, 5), (1, 1, 1), (2, 40, 8), (1, 3, 3), (2, 2, 2)]:
        logits = rng.torch.normal(g, b, v, std=2.0).double()
        u = rng.torch.uniform(b).double()
        runs.append(
            {
                "logits": logits,
                "u": u,
                "plain": draw(logits, u, 1.0, 1.0),
                "hot": draw(logits, u, 5.0, 1.0),
                "cold": draw(logits, u, 0.05, 1.0),
                "strong": draw(logits, u, 1.0, 4.0),
                "none": draw(logits, u, 2.0, 0.0),
                "least": draw(logits, torch.zeros(b), 1.0, 2.0),
                "single": draw(logits.float(), u.float(), 1.3, 1.5),
            }
        )
    block = rng.torch.normal(2, 3, 4, 5)
    numbers = rng.torch.uniform(3, 4)
    halves = torch.tensor([[-math.inf, 0.0, -math.inf, 0.0]])
    fine = torch.full((1, 1001), -17.0)  # a thousand small ones behind a large one
    fine[0, 0] = 0.0
    tail = rng.torch.uniform(1, low=0.99998, high=1.0)
    return {
        "runs": runs,
        "halves": [draw(halves[None], torch.tensor([u]), 1.0, 1.0) for u in (0.0, 0.4, 0.5, 0.9)],
        "just below": draw(torch.zeros(1, 3, 2), torch.tensor([0.5 - 2.0**-40, 0.5, 0.0]).double(), 1.0, 1.0),
        "block": [draw(block, numbers, 0.8, 2.0), draw(block[:1], numbers, 2.0, 2.0)],
        "fine": draw(fine[None], tail, 1.0, 1.0) > 0,
        "refused": [
            raises(lambda t=t: draw(halves[None], torch.tensor([0.5]), t, 1.0))
            for t in (0.0, -1.0, -0.5, math.nan, 0.5, 1.0)
        ],
    }


# --- levels --------------------------------------------------------------------------------------


@case(seeds=1, rtol=1e-6, atol=1e-8, covers=["src/levels.py"])
def conditions_of_both_kinds_of_levels(tree, rng):
    module = tree.load("levels")
    runs = []
    for b, size, patch, values in [(2, 4, 2, 8), (1, 6, 2, 256), (3, 2, 1, 4), (2, 2, 2, 6)]:
        count = (size // patch) ** 2
        patches = rng.torch.integers(0, values, b, count, 3, patch, patch)
        condition = rng.torch.normal(b, 5, 6).double()
        hidden = rng.torch.uniform(b, count) < 0.5
        causal = fill(module.CausalLevel(size, patch, 6, 8, 1, 2, values), rng)
        masked = fill(module.MaskedLevel(size, patch, 6, 8, 1, 2, values), rng)
        row, free = causal(patches, condition), masked(patches, condition, hidden)
        (row.square().sum() + free.square().sum()).backward()
        last = patches.clone()
        last[:, -1] = (last[:, -1] + 1) % values
        changed = torch.where(hidden[..., None, None, None], (patches + 1) % values, patches)
        runs.append(
            {
                "tokens": causal.tokens(patches),
                "weight": causal.embed.weight,
                "bias": causal.embed.bias,
                "patches": patches,
                "values": values,
                "causal": row,
                "masked": free,
                "causal grads": gradients(causal),
                "masked grads": gradients(masked),
                "last changed": causal(last, condition),
                "hidden changed": masked(changed, condition, hidden),
                "all hidden": masked(patches, condition, torch.ones_like(hidden)),
                "none hidden": masked(patches, condition, torch.zeros_like(hidden)),
                "single": masked.float().tokens(patches),
            }
        )
    return runs


# --- pixels --------------------------------------------------------------------------------------


@case(seeds=2, rtol=1e-6, atol=1e-8, covers=["src/pixels.py"])
def logits_and_losses_of_pixels(tree, rng):
    level = fill(tree.load("pixels").PixelLevel(6, 8, 1, 2, 5), rng, 0.6)
    runs = []
    for b in (1, 4, 3):
        pixels = rng.torch.integers(0, 5, b, 3)
        condition = rng.torch.normal(b, 5, 6).double().requires_grad_()
        level.zero_grad()
        loss = level.loss(pixels, condition)
        (loss * torch.arange(1, b + 1)).sum().backward()
        runs.append(
            {
                "pixels": pixels,
                "logits": [level(pixels[:, :n], condition) for n in range(3)],
                "loss": loss,
                "grad": condition.grad,
                "grads": {name: grad.clone() for name, grad in gradients(level).items()},
            }
        )
    return runs


@case(seeds=1, covers=["src/pixels.py"])
def samples_of_pixels(tree, rng):
    level = fill(tree.load("pixels").PixelLevel(6, 8, 1, 2, 9), rng, 0.9)
    runs = []
    for g, b in [(1, 5), (2, 5), (2, 1), (1, 2), (2, 30)]:
        condition = rng.torch.normal(g, b, 5, 6).double()
        uniforms = rng.torch.uniform(b, 3).double()
        pixels = level.sample(condition, uniforms, 1.0, 3.0)
        runs.append(
            {
                "pixels": pixels,
                "hot": level.sample(condition, uniforms, 8.0, 1.0),
                "without class": level.sample(condition, uniforms, 1.0, 0.0),
                "second only": level.sample(condition[-1:], uniforms, 1.0, 1.0),
                "first": level.sample(condition, 0 * uniforms, 1.0, 3.0),
                "logits": level(pixels[:, :2], condition[0]),
                "uniforms": uniforms,
            }
        )
    return runs


# --- fractal -------------------------------------------------------------------------------------


def make_fractal(tree, rng, kinds, sides, steps=3, std=0.5):
    """A fractal of levels "c" (causal) and "m" (masked) for images of sides[0]."""
    module = tree.load("levels")
    levels, outer = [], 6
    for kind, size, patch in zip(kinds, sides, [*sides[1:], 1]):
        made = module.CausalLevel if kind == "c" else module.MaskedLevel
        levels.append(made(size, patch, outer, 4, 1, 2, 5))
        outer = 4
    pixels = tree.load("pixels").PixelLevel(outer, 4, 1, 2, 5)
    return fill(tree.load("fractal").Fractal(levels, pixels, 3, 6, steps), rng, std)


FRACTALS = [("c", [2]), ("m", [3]), ("mc", [4, 2]), ("cm", [4, 2])]


@case(seeds=1, rtol=1e-6, atol=1e-8, covers=["src/fractal.py"])
def losses_of_fractals(tree, rng):
    runs = {}
    for kinds, sides in FRACTALS:
        model = make_fractal(tree, rng, kinds, sides)
        images = rng.torch.integers(0, 5, 3, 3, sides[0], sides[0])
        condition = model.condition(rng.torch.integers(0, 4, 3))
        generator = rng.torch.generator()
        loss = model.loss(images, condition, generator)
        (loss * torch.arange(1, 4)).sum().backward()
        runs[kinds] = {
            "loss": loss,
            "after": torch.rand(2, generator=generator),
            "grads": gradients(model),
            "one": model.loss(images[:1], condition[:1], rng.torch.generator()),
        }
    return runs


@case(seeds=1, covers=["src/fractal.py"])
def images_of_fractals(tree, rng):
    runs = {}
    for kinds, sides in FRACTALS:
        model = make_fractal(tree, rng, kinds, sides, steps=2, std=0.9)
        labels = rng.torch.integers(0, 3, 2)
        known = model.condition(labels)
        both = torch.stack([known, model.condition(torch.full_like(labels, 3))])
        generator = rng.torch.generator()
        runs[kinds] = {
            "side": sides[0],
            "plain": model.sample(known[None], generator),
            "after": torch.rand(2, generator=generator),
            "guided": model.sample(both, generator, 1.0, 4.0),
            "unguided": model.sample(both, rng.torch.generator(), 1.0, 1.0),
        }
    return runs


@case(seeds=1, covers=["src/fractal.py"])
def images_of_many_steps(tree, rng):
    model = make_fractal(tree, rng, "m", [4], steps=5, std=0.9)
    both = model.condition(torch.tensor([0, 1, 2, 3, 3, 3])).unflatten(0, (2, 3))
    inner = rng.torch.normal(2, 3, 5, 4).double()
    deep = make_fractal(tree, rng, "cm", [4, 2], steps=2, std=0.9)
    return {
        "guided": model.sample(both, rng.torch.generator(), 1.0, 6.0),
        "weak": model.sample(both, rng.torch.generator(), 2.0, 0.2),
        "inner": deep.sample(inner, rng.torch.generator(), 1.0, 5.0, 1),
    }


@case(seeds=1, covers=["src/fractal.py"])
def what_pixels_are_told(tree, rng):
    runs = []
    for kinds, sides, steps in [("m", [3], 4), ("cm", [4, 2], 2), ("mc", [4, 2], 3), ("c", [2], 1)]:
        model = make_fractal(tree, rng, kinds, sides, steps=steps)
        told = []

        def sample(condition, uniforms, temperature, guidance):
            told.append([temperature, guidance])
            values = condition.mean(dim=(0, 2, 3)).sigmoid()[:, None] + uniforms
            return (2 * values).long()

        model.pixel_level.sample = sample
        strength = float(rng.numpy.uniform(2, 5))
        both = model.condition(torch.tensor([0, 1, 2, 3, 3, 3])).unflatten(0, (2, 3))
        images = model.sample(both, rng.torch.generator(), 0.7, strength)
        runs.append({"told": torch.tensor(told), "images": images, "strength": strength})
    return runs


@case(seeds=2, covers=["src/fractal.py"])
def small_things(tree, rng):
    module = tree.load("fractal")
    model = make_fractal(tree, rng, "c", [2])
    labels = rng.torch.integers(0, 3, 40)
    uniforms = rng.torch.uniform(40)
    nats = rng.torch.uniform(7, high=3.0)
    return {
        "labels": labels,
        "uniforms": uniforms,
        "default": model.drop_labels(labels, uniforms),
        "often": model.drop_labels(labels, uniforms, 0.6),
        "never": model.drop_labels(labels, uniforms, 0.0),
        "edge": model.drop_labels(labels[:2], torch.tensor([0.25, 0.5]), 0.5),
        "nats": nats,
        "bits": module.bits_per_dimension(nats),
    }


# --- training ------------------------------------------------------------------------------------


class Descent:
    """Plain gradient descent, with what training needs of an optimizer."""

    def __init__(self, groups, rate):
        self.param_groups = [{**group, "lr": rate} for group in groups]
        self.parameters = [p for group in groups for p in group["params"]]
        for parameter in self.parameters:  # left over from something else
            parameter.grad = torch.ones_like(parameter)

    def zero_grad(self, set_to_none=True):
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter -= group["lr"] * parameter.grad


@case(seeds=1, rtol=1e-6, atol=1e-8, covers=["src/training.py"])
def steps_of_training(tree, rng):
    step = tree.load("training").training_step
    runs = {}
    for name, kinds, sides, settings in [
        ("causal", "c", [2], {"rate": 0.1, "warmup": 2}),
        ("masked", "mc", [4, 2], {"rate": 0.5, "warmup": 0, "decay": 0.5, "max_norm": 0.1}),
        ("long", "c", [2], {"rate": 0.3, "warmup": 5, "decay": 0.9, "max_norm": 1e9}),
    ]:
        model = make_fractal(tree, rng, kinds, sides)
        parameters = list(model.parameters())
        groups = [{"params": parameters[:3]}, {"params": parameters[3:]}]
        optimizer = Descent(groups, 7.0)
        averages = {name: p.detach().clone() for name, p in model.named_parameters()}
        given = {name: (average, average.data_ptr()) for name, average in averages.items()}
        generator = rng.torch.generator()
        losses, rates = [], []
        for number in range(3):
            images = rng.torch.integers(0, 5, 4, 3, sides[0], sides[0])
            labels = rng.torch.integers(0, 3, 4)
            losses.append(
                step(model, averages, optimizer, images, labels, generator, number, **settings)
            )
            rates.append([group["lr"] for group in optimizer.param_groups])
        runs[name] = {
            "losses": losses,
            "rates": rates,
            "after": torch.rand(2, generator=generator),
            "averages": averages,
            "in place": all(
                averages[name] is average and average.data_ptr() == memory
                for name, (average, memory) in given.items()
            ),
            "parameters": dict(model.named_parameters()),
        }
    before = [p.detach().clone() for p in parameters]
    refused = []
    for value in (math.nan, math.inf):
        with torch.no_grad():
            model.pixel_level.head.bias[0] = value
        arguments = (model, averages, optimizer, images, labels, generator, 9)
        refused.append(raises(lambda a=arguments: step(*a, rate=0.1, warmup=2)))
    with torch.no_grad():  # a value that occurs becomes impossible: the loss is infinite, and no NaN
        model.pixel_level.head.bias[0] = -math.inf
    arguments = (model, averages, optimizer, 0 * images, labels, generator, 9)
    refused.append(raises(lambda: step(*arguments, rate=0.1, warmup=2)))
    same = all(torch.equal(a, p) for a, p in zip(before, parameters) if p is not model.pixel_level.head.bias)
    finite = all(bool(average.isfinite().all()) for average in averages.values())
    rates = [group["lr"] for group in optimizer.param_groups]
    return {"runs": runs, "refused": refused, "same": same, "finite": finite, "rates": rates}
