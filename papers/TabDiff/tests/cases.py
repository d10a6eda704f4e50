"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import math

import torch
from torch import nn

from rcb_env.cases import case, raises

NAN = math.nan
SIZES = (3, 2, 5)


def normal(rng, *shape, **kwargs):
    return rng.torch.normal(*shape, **kwargs).double()


def uniform(rng, *shape, **kwargs):
    return rng.torch.uniform(*shape, **kwargs).double()


def categories(rng, rows, sizes, masks=0.0):
    """Random categories, some of them masked."""
    columns = [rng.torch.integers(0, size, rows) for size in sizes]
    cat = torch.stack(columns, dim=1)
    return torch.where(rng.torch.uniform(rows, len(sizes)) < masks, torch.tensor(sizes), cat)


def schedules_of(tree, rng, columns=4, sizes=SIZES, dtype=torch.float64):
    """Schedules with random exponents."""
    module = tree.load("schedules")
    made = module.Schedules(
        module.PowerMeanSchedule(columns, low=0.02, high=10.0), module.LogLinearSchedule(len(sizes))
    )
    for part in made:
        part.raw.data = normal(rng, *part.raw.shape).to(dtype)
    return made


class Curve(nn.Module):
    """A model that depends on all of its input, and keeps it."""

    def __init__(self, tree, rng, columns=4, sizes=SIZES, dtype=torch.float64):
        super().__init__()
        self.make = tree.load("table").Prediction
        self.a = nn.Parameter(normal(rng, columns + len(sizes) + 1, columns, std=0.5).to(dtype))
        self.b = nn.Parameter(normal(rng, columns + len(sizes) + 1, sum(sizes), std=0.5).to(dtype))
        self.seen = []

    def forward(self, rows, t):
        self.seen.append({"num": rows.num.detach(), "cat": rows.cat.clone(), "t": t.detach()})
        everything = torch.cat([rows.num / (1 + rows.num.abs()), rows.cat - 1.0, t[:, None]], dim=1)
        return self.make(torch.tanh(everything @ self.a), everything @ self.b)


def as_dict(rows):
    return {"num": rows.num, "cat": rows.cat}


# --- schedules ------------------------------------------------------------------------------------


@case(seeds=2, rtol=1e-9, atol=1e-12, covers=["src/schedules.py"])
def deviations_of_numerical_columns(tree, rng):
    module = tree.load("schedules")
    out = {}
    for name, columns, settings in [
        ("default", 1, {}),
        ("wide", 5, {"low": 0.1, "high": 300.0}),
        ("narrow", 3, {"rho": 2.0, "low": 0.5, "high": 1.5}),
    ]:
        schedule = module.PowerMeanSchedule(columns, **settings).double()
        at_first = schedule.rho().detach().clone()
        schedule.raw.data += normal(rng, columns)
        t = uniform(rng, 7)
        sigma = schedule.sigma(t)
        (gradient,) = torch.autograd.grad((sigma / sigma.detach()).sum(), schedule.raw)
        out[name] = {
            "t": t,
            "at first": at_first,
            "rho": schedule.rho(),
            "sigma": sigma,
            "gradient": gradient,
            "ends": schedule.sigma(torch.tensor([0.0, 1.0], dtype=torch.float64)),
        }
    return out


@case(seeds=2, covers=["src/schedules.py"])
def survival_of_categorical_columns(tree, rng):
    schedule = tree.load("schedules").LogLinearSchedule(4).double()
    linear = schedule.alpha(torch.tensor([0.0, 0.25, 1.0], dtype=torch.float64))
    schedule.raw.data += normal(rng, 4)
    t = uniform(rng, 6, low=0.01)
    alpha = schedule.alpha(t)
    (gradient,) = torch.autograd.grad(alpha.sum(), schedule.raw)
    return {"linear": linear, "t": t, "k": schedule.k(), "alpha": alpha, "gradient": gradient}


# --- categories -----------------------------------------------------------------------------------


@case(seeds=3, covers=["src/categories.py"])
def draws_of_categories(tree, rng):
    draw = tree.load("categories").draw_categories
    out = {}
    for name, rows, sizes in [("some", 9, SIZES), ("one", 4, (6,)), ("single row", 1, (2, 7)), ("sure", 3, (1, 4))]:
        logits, uniforms = normal(rng, rows, sum(sizes), std=2.0), uniform(rng, rows, len(sizes))
        out[name] = {
            "logits": logits,
            "uniforms": uniforms,
            "drawn": draw(logits, uniforms, sizes),
            "single": str(draw(logits.float(), uniforms.float(), sizes).dtype),
            "none": draw(logits, torch.zeros_like(uniforms), sizes),
            "all": draw(logits, torch.ones_like(uniforms), sizes),
        }
    logits = normal(rng, 4, 10)
    edges = torch.stack([part.softmax(1).cumsum(1)[:, 0] for part in logits.split(SIZES, dim=1)], dim=1)
    out["just before"] = draw(logits, edges - 1e-10, SIZES)
    out["just after"] = draw(logits, edges + 1e-10, SIZES)
    return out


@case(seeds=1, covers=["src/categories.py"])
def draws_at_the_edges(tree, rng):
    shares = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0, 1.0, 0.0]], dtype=torch.float64)
    uniforms = torch.tensor([[0.0, 0.0], [0.25, 0.5], [0.5, 0.9], [0.99, 1.0], [1.0, 0.1]])
    return tree.load("categories").draw_categories(shares.log().expand(5, 7), uniforms.double(), (5, 2))


@case(seeds=3, covers=["src/categories.py"])
def reverse_steps_of_categories(tree, rng):
    unmask = tree.load("categories").unmask
    cat = categories(rng, 12, SIZES, masks=0.7)
    kept = cat.clone()
    logits = normal(rng, 12, 10)
    alpha_t, alpha_s = uniform(rng, 12, 3, high=0.5), uniform(rng, 12, 3, low=0.5)
    stay, uniforms = uniform(rng, 12, 3), uniform(rng, 12, 3)
    zero, one = torch.zeros(3).double(), torch.ones(3).double()
    edge = (1 - alpha_s) / (1 - alpha_t)
    return {
        "cat": kept,
        "stay": stay,
        "share": edge,
        "found": unmask(cat, logits, alpha_t, alpha_s, stay, uniforms, SIZES),
        "one alpha a column": unmask(cat, logits, alpha_t[0], alpha_s[1], stay, uniforms, SIZES),
        "to data": unmask(cat, logits, alpha_t, one, 0 * stay, uniforms, SIZES),
        "from noise": unmask(cat, logits, zero, alpha_s, stay, uniforms, SIZES),
        "standing": unmask(cat, logits, zero, zero, stay, uniforms, SIZES),
        "on the edge": unmask(cat, logits, alpha_t, alpha_s, edge, uniforms, SIZES),
        "near data": unmask(cat, logits, 1 - 1e-9 * (1 - alpha_t), 1 - 1e-9 * (1 - alpha_s), stay, uniforms, SIZES),
        "untouched": torch.equal(cat, kept),
    }


# --- losses ---------------------------------------------------------------------------------------


@case(seeds=2, covers=["src/losses.py"])
def categorical_losses(tree, rng):
    loss = tree.load("losses").categorical_loss
    out = {}
    for name, rows, sizes, scale, latest in [
        ("some", 6, SIZES, 2.0, 1.0),
        ("one", 4, (4,), 2.0, 1.0),
        ("single row", 1, (2, 3), 2.0, 1.0),
        ("early", 6, SIZES, 2.0, 0.005),
        ("surprised", 6, SIZES, 2000.0, 1.0),
    ]:
        logits = normal(rng, rows, sum(sizes), std=scale).requires_grad_()
        cat = categories(rng, rows, sizes)
        noisy = torch.where(uniform(rng, rows, len(sizes)) < 0.5, torch.tensor(sizes), cat)
        t, k = uniform(rng, rows, low=0.05 if latest == 1 else 1e-3, high=latest), uniform(rng, len(sizes), low=0.3, high=3.0)
        k.requires_grad_()
        masks = torch.tensor(sizes).expand_as(cat)
        hidden = loss(logits, cat, masks, t, k, sizes)
        out[name] = {
            "logits": logits,
            "cat": cat,
            "noisy": noisy,
            "t": t,
            "k": k,
            "loss": loss(logits, cat, noisy, t, k, sizes),
            "hidden": hidden,
            "open": loss(logits, cat, cat, t, k, sizes),
            "gradients": list(torch.autograd.grad(hidden.sum(), [logits, k])),
        }
    blocked = torch.tensor([[0.0, -math.inf, 1.0, 0.0, 0.5]], dtype=torch.float64)
    blocked = blocked + torch.cat([normal(rng, 1, 3), torch.zeros(1, 2).double()], dim=1)
    one, k = torch.ones(1).double(), torch.ones(2).double()
    blocked.requires_grad_()
    k.requires_grad_()
    out["blocked"] = loss(blocked, torch.tensor([[1, 1]]), torch.tensor([[1, 2]]), one, k, (3, 2))
    out["gradients of the blocked"] = list(torch.autograd.grad(out["blocked"].sum(), [blocked, k]))
    out["impossible"] = loss(blocked, torch.tensor([[1, 1]]), torch.tensor([[3, 1]]), one, k, (3, 2))
    return out


# --- training -------------------------------------------------------------------------------------


def trained(tree, rng, rows=5, sizes=SIZES, steps=2, lr=0.1, dtype=torch.float64, groups=1, **settings):
    schedules, model = schedules_of(tree, rng, 4, sizes, dtype), Curve(tree, rng, 4, sizes, dtype)
    parameters = [model.a, model.b, schedules.num.raw, schedules.cat.raw]
    before = [p.detach().clone() for p in parameters]
    parts = [{"params": parameters[:2]}, {"params": parameters[2:]}]
    optimizer = torch.optim.SGD(parameters if groups == 1 else parts, lr=lr)
    data = tree.load("table").Rows(normal(rng, rows, 4).to(dtype), categories(rng, rows, sizes))
    kept = data.cat.clone()
    generator = rng.torch.generator()
    step = tree.load("training").train_step
    losses = [step(model, schedules, optimizer, data, sizes, generator, **settings) for _ in range(steps)]
    return {
        "losses": [list(loss) for loss in losses],
        "kinds": [type(value).__name__ for value in losses[0]],
        "seen": model.seen,
        "before": before,
        "parameters": parameters,
        "untouched": torch.equal(kept, data.cat),
        "next": torch.rand(1, generator=generator),
    }


@case(seeds=2, rtol=1e-9, atol=1e-11, covers=["src/training.py", "src/losses.py", "src/schedules.py"])
def training_steps(tree, rng):
    return {
        "default": trained(tree, rng),
        "free": trained(tree, rng, max_norm=1e6, lr=1e-3, weight_num=0.7, weight_cat=2.5),
        "clipped": trained(tree, rng, steps=1, max_norm=0.01, lr=1.0),
        "only numbers": trained(tree, rng, steps=1, weight_cat=0.0, lr=1e-3),
        "only categories": trained(tree, rng, steps=1, weight_num=0, lr=1e-3),
        "one row": trained(tree, rng, rows=1, sizes=(3,), steps=1),
        "many rows": trained(tree, rng, rows=16, steps=1),
        "two groups": trained(tree, rng, steps=1, max_norm=0.5, groups=2),
    }


@case(seeds=1, rtol=1e-3, atol=1e-5, covers=["src/training.py"])
def training_steps_in_single_precision(tree, rng):
    return trained(tree, rng, steps=1, dtype=torch.float32, lr=1e-3)


@case(seeds=1, covers=["src/training.py"])
def training_that_is_refused(tree, rng):
    def tried(rows=2, **settings):
        schedules, model = schedules_of(tree, rng), Curve(tree, rng)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = tree.load("table").Rows(normal(rng, rows, 4), categories(rng, rows, SIZES))
        generator = rng.torch.generator()
        step = tree.load("training").train_step
        error = raises(lambda: step(model, schedules, optimizer, data, SIZES, generator, **settings))
        return [error, len(model.seen), torch.rand(1, generator=generator)]

    return [
        tried(rows=0),
        *[tried(weight_num=w) for w in (-1.0, -0.1, NAN)],
        *[tried(weight_cat=w) for w in (-1.0, -0.1, NAN)],
        tried(rows=1, weight_num=0.0),
        tried(weight_cat=0.1),
    ]


# --- guidance -------------------------------------------------------------------------------------


@case(seeds=2, covers=["src/guidance.py"])
def guided_predictions(tree, rng):
    module, make = tree.load("guidance"), tree.load("table").Prediction
    joint = make(normal(rng, 6, 4), normal(rng, 6, 10))
    kept = [part.clone() for part in joint]
    out = {"noise": kept[0], "logits": kept[1]}
    for name, nums, cats, omega in [
        ("some", [2], [1], 0.6),
        ("unordered", [3, 0], [2, 0], 1.5),
        ("all", [0, 1, 2, 3], [0, 1, 2], 0.3),
        ("numbers", [1, 2], [], 2.0),
        ("categories", [], [2], 2.0),
        ("nothing", [], [], 2.0),
        ("zero", [0, 2], [0, 2], 0.0),
        ("sure", [0], [1, 2], 0.5),
    ]:
        if name == "sure":
            joint = make(joint.noise, 2000 * joint.logits)
            kept = [part.clone() for part in joint]
        alone = make(normal(rng, 6, len(nums)), normal(rng, 6, sum(SIZES[j] for j in cats)))
        given = [part.clone() for part in alone]
        made = module.guided_prediction(joint, alone, nums, cats, omega, SIZES)
        out[name] = {
            "made": {"noise": made.noise, "logits": made.logits},
            "alone": given,
            "untouched": all(torch.equal(a, b) for a, b in zip([*joint, *alone], [*kept, *given])),
        }
    return out


# --- sampler --------------------------------------------------------------------------------------


@case(seeds=2, covers=["src/sampler.py"])
def disturbed_rows(tree, rng):
    disturb, make = tree.load("sampler").disturb, tree.load("table").Rows
    schedules = schedules_of(tree, rng)
    rows = make(normal(rng, 8, 4), categories(rng, 8, SIZES, masks=0.2))
    out = {"rows": as_dict(rows)}
    for name, s, t in [
        ("some", 0.2, 0.5),
        ("far", 0.0, 1.0),
        ("near", 0.5, 0.52),
        ("standing", 0.4, 0.4),
        ("data", 0.0, 0.0),
        ("noise", 1.0, 1.0),
        ("late", 0.9995, 0.9999),
    ]:
        generator = rng.torch.generator()
        with torch.no_grad():
            made = disturb(rows, s, t, schedules, SIZES, generator)
        out[name] = {**as_dict(made), "next": torch.rand(1, generator=generator)}
    return out


@case(seeds=1, rtol=1e-3, atol=1e-5, covers=["src/sampler.py", "src/imputation.py"])
def rows_in_single_precision(tree, rng):
    sampler, make = tree.load("sampler"), tree.load("table").Rows
    schedules = schedules_of(tree, rng, dtype=torch.float32)
    model = Curve(tree, rng, dtype=torch.float32)
    rows = make(rng.torch.normal(8, 4), categories(rng, 8, SIZES, masks=0.5))
    known = make(rng.torch.normal(8, 4), categories(rng, 8, SIZES))
    flags = torch.tensor([True, False, False, True]), torch.tensor([False, True, False])
    runs = {
        "disturbed": lambda g: sampler.disturb(rows, 0.2, 0.5, schedules, SIZES, g),
        "reversed": lambda g: sampler.reverse_step(model, rows, 0.5, 0.3, 0.1, schedules, SIZES, g),
        "imputed": lambda g: tree.load("imputation").impute(
            model, known, *flags, 2, 2, 0.1, schedules, SIZES, g
        ),
    }
    out = {}
    for name, run in runs.items():
        generator = rng.torch.generator()
        model.seen.clear()
        with torch.no_grad():
            out[name] = as_dict(run(generator))
        out[name] |= {"seen": [look["t"] for look in model.seen], "next": torch.rand(1, generator=generator)}
    return out


@case(seeds=2, covers=["src/sampler.py"])
def reverse_steps(tree, rng):
    step, make = tree.load("sampler").reverse_step, tree.load("table").Rows
    schedules, model = schedules_of(tree, rng), Curve(tree, rng)
    rows = make(normal(rng, 8, 4, std=3.0), categories(rng, 8, SIZES, masks=0.6))
    kept = [part.clone() for part in rows]
    out = {"rows": as_dict(make(*kept))}
    for name, t, s, gamma in [
        ("some", 0.5, 0.3, 0.1),
        ("plain", 0.5, 0.3, 0.0),
        ("far", 0.6, 0.2, 0.5),
        ("bounded", 0.9, 0.5, 0.7),
        ("last", 0.25, 0.0, 0.25),
        ("first", 1.0, 0.8, 0.2),
        ("whole", 1, 0, 0),
    ]:
        generator = rng.torch.generator()
        model.seen.clear()
        made = step(model, rows, t, s, gamma, schedules, SIZES, generator)
        out[name] = {
            **as_dict(made),
            "seen": list(model.seen),
            "gradient": made.num.requires_grad,
            "next": torch.rand(1, generator=generator),
        }
        times = torch.tensor([min(t * (1 + gamma), 1), s], dtype=torch.float64)
        out[name]["sigma"] = schedules.num.sigma(times)
        out[name]["noise"] = model(make(model.seen[0]["num"], model.seen[0]["cat"]), times[:1].expand(8)).noise
    out["untouched"] = all(torch.equal(a, b) for a, b in zip(rows, kept))
    return out


@case(seeds=1, covers=["src/sampler.py"])
def reverse_steps_that_are_refused(tree, rng):
    step, make = tree.load("sampler").reverse_step, tree.load("table").Rows
    schedules, model = schedules_of(tree, rng), Curve(tree, rng)
    rows = make(normal(rng, 2, 4), categories(rng, 2, SIZES, masks=0.5))

    def tried(t, s, gamma):
        generator = rng.torch.generator()
        error = raises(lambda: step(model, rows, t, s, gamma, schedules, SIZES, generator))
        return [error, torch.rand(1, generator=generator)]

    bad = [(0.5, 0.5, 0.1), (0.3, 0.5, 0.1), (1.1, 0.5, 0.1), (1.5, 1.2, 0.1), (0.5, -0.1, 0.1), (NAN, 0.5, 0.1)]
    bad += [(0.5, NAN, 0.1), (0.5, 0.2, -0.1), (0.5, 0.2, -1.0), (0.5, 0.2, NAN), (0.0, 0.0, 0.0)]
    good = [(1.0, 0.0, 0.0), (0.5, 0.2, 3.0), (0.01, 0.0, 0.5)]
    return {"refused": [tried(*row) for row in bad], "accepted": [tried(*row) for row in good]}


@case(seeds=1, covers=["src/sampler.py", "src/categories.py", "src/schedules.py"])
def samples(tree, rng):
    schedules, model = schedules_of(tree, rng), Curve(tree, rng)
    made = tree.load("sampler").sample(model, 9, 4, schedules, SIZES, rng.torch.generator())
    return as_dict(made)


# --- imputation -----------------------------------------------------------------------------------


@case(seeds=2, covers=["src/imputation.py"])
def imputed_rows(tree, rng):
    impute, make = tree.load("imputation").impute, tree.load("table").Rows
    schedules, model = schedules_of(tree, rng), Curve(tree, rng)
    known = make(normal(rng, 6, 4), categories(rng, 6, SIZES))
    kept = [part.clone() for part in known]
    nums, cats = torch.tensor([True, False, False, True]), torch.tensor([False, True, False])
    other = make(
        torch.where(nums, known.num, normal(rng, 6, 4)),
        torch.where(cats, known.cat, categories(rng, 6, SIZES)),
    )
    out = {"known": as_dict(make(*kept))}
    for name, rows, flags, steps, repeats, gamma in [
        ("some", known, (nums, cats), 3, 2, 0.3),
        ("other", other, (nums, cats), 3, 2, 0.3),
        ("once", known, (~nums, ~cats), 4, 1, 0.1),
        ("often", known, (nums, ~cats), 1, 3, 0.0),
        ("everything", known, (nums | True, cats | True), 2, 2, 0.2),
        ("nothing", known, (nums & False, cats & False), 2, 2, 0.2),
    ]:
        generator = rng.torch.generator()
        model.seen.clear()
        made = impute(model, rows, *flags, steps, repeats, gamma, schedules, SIZES, generator)
        out[name] = {
            **as_dict(made),
            "seen": list(model.seen),
            "gradient": made.num.requires_grad,
            "next": torch.rand(1, generator=generator),
        }
    out["untouched"] = all(torch.equal(a, b) for a, b in zip(known, kept))
    return out


@case(seeds=1, covers=["src/imputation.py"])
def imputation_that_is_refused(tree, rng):
    impute, make = tree.load("imputation").impute, tree.load("table").Rows
    schedules, model = schedules_of(tree, rng), Curve(tree, rng)
    known = make(normal(rng, 2, 4), categories(rng, 2, SIZES))
    flags = torch.ones(4, dtype=torch.bool), torch.zeros(3, dtype=torch.bool)

    def tried(steps, repeats):
        generator = rng.torch.generator()
        error = raises(
            lambda: impute(model, known, *flags, steps, repeats, 0.1, schedules, SIZES, generator)
        )
        return [error, torch.rand(1, generator=generator)]

    return [tried(*pair) for pair in [(0, 1), (-1, 1), (1, 0), (2, -1), (0, 0), (1, 1), (2, 1)]]
