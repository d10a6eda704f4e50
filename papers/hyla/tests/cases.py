"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import math

import numpy as np
import torch

from rcb_env.cases import case, raises

NAN = math.nan


def layer(tree, rng, kind, width, heads):
    """An attention layer with random weights, in float64."""
    made = tree.load("attention").HypernetworkAttention(width, heads, kind).double()
    for weight in made.parameters():
        weight.data.copy_(rng.torch.normal(*weight.shape, std=0.6))
    return made


def masks(rng, batch, steps):
    """No mask, a causal one, and one with a query that sees nothing."""
    blind = rng.torch.uniform(batch, steps, steps) < 0.6
    blind[0, 1] = False
    blind[:, :, 0] |= True
    blind[0, 1] = False
    return [None, torch.ones(steps, steps).tril() > 0, blind]


@case(seeds=2, rtol=1e-5, atol=1e-7, covers=["src/attention.py"])
def normalized_scores(tree, rng):
    rms_head = tree.load("attention").rms_head
    runs = []
    for shape in [(2, 3, 4, 5), (1, 1, 2, 2), (3, 8, 1, 4)]:
        scores = rng.torch.normal(*shape).double()
        runs.append({"scores": scores, "found": rms_head(scores), "wide": rms_head(scores, 0.5)})
    small = 1e-3 * rng.torch.normal(2, 2, 2, 2).double()
    return {
        "runs": runs,
        "small": rms_head(small),
        "zero": rms_head(torch.zeros(1, 2, 2, 2)),
        "single": rms_head(rng.torch.normal(1, 2, 3, 3)),
    }


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/attention.py"])
def attention_of_all_kinds(tree, rng):
    runs = []
    for kind in ("softmax", "linear", "hyla"):
        for batch, steps, width, heads in [(2, 4, 6, 3), (3, 3, 4, 1)]:
            attention = layer(tree, rng, kind, width, heads)
            x = rng.torch.normal(batch, steps, width).double().requires_grad_()
            for mask in masks(rng, batch, steps):
                attention.zero_grad()
                x.grad = None
                y, codes = attention(x, mask)
                (y * torch.arange(width)).sum().backward()
                run = {
                    "kind": kind,
                    "x": x.clone(),
                    "weights": {n: w.clone() for n, w in attention.named_parameters()},
                    "mask": torch.ones(batch, steps, steps) > 0 if mask is None else mask,
                    "y": y,
                    "codes": codes,
                    "gradient": x.grad.clone(),
                    "out_gradient": attention.out.grad.clone(),
                    "key_gradient": attention.key.grad.clone(),
                    "query_gradient": attention.query.grad,
                    "value_gradient": attention.value.grad,
                }
                if kind != "hyla":
                    run["matrices"] = attention.generated_weights(codes)
                    used = codes.detach().requires_grad_()
                    made = attention.generated_weights(used)
                    parts = [used, attention.out, attention.value]
                    pull = (made * rng.torch.normal(*made.shape).double()).sum()
                    run["matrix_gradients"] = list(torch.autograd.grad(pull, parts))
                runs.append(run)
    hyla = layer(tree, rng, "hyla", 4, 2)
    x = rng.torch.normal(2, 3, 4).double()
    shapes = [(3, 3), (2, 3, 3), (1, 3, 3), (3, 3, 3), (2, 3), (3,), (2, 2), (1, 3), (2, 1, 3, 3)]
    codes = rng.torch.normal(2, 2, 3, 3).double()
    return {
        "runs": runs,
        "given": hyla.apply_codes(codes, rng.torch.normal(2, 3, 4).double()),
        "shapes": [raises(lambda s=s: hyla.codes(x, torch.ones(s) > 0)) for s in shapes],
        "no_matrix": raises(lambda: hyla.generated_weights(codes)),
    }


@case(seeds=2, rtol=1e-6, atol=1e-9, covers=["src/attention.py"])
def codes_of_scores_of_any_size(tree, rng):
    found = []
    for kind in ("softmax", "linear", "hyla"):
        attention = layer(tree, rng, kind, 6, 2)
        for size in (1e-3, 30.0, 1e3):
            x = (size * rng.torch.normal(2, 4, 6)).double().requires_grad_()
            for mask in masks(rng, 2, 4):
                codes = attention.codes(x, mask)
                pull = (codes * rng.torch.normal(*codes.shape).double()).sum()
                (gradient,) = torch.autograd.grad(pull, x)
                scale = 1 / size**2 if kind == "linear" else 1.0
                found.append({"codes": scale * codes, "gradient": scale * size * gradient})
    return found


@case(seeds=3, covers=["src/fuzzy.py"])
def truth_values(tree, rng):
    truth = tree.load("fuzzy").truth
    runs = []
    for number, variables, points in [(2, 3, 5), (1, 1, 4), (4, 2, 3), (3, 5, 6)]:
        terms = rng.torch.integers(-1, 2, number, variables)
        x = rng.torch.uniform(points, variables).double()
        runs.append({"terms": terms, "x": x, "found": truth(terms, x)})
    x = rng.torch.uniform(4, 2)
    good = torch.tensor([[1, -1], [0, 1]])
    return {
        "runs": runs,
        "single": truth(good, x),
        "false": truth(torch.zeros(0, 2, dtype=torch.long), x),
        "true": truth(torch.tensor([[1, 1], [0, 0]]), x),
        "none": truth(good, x[:0]),
        "refused": [
            raises(lambda: truth(good, x)),
            raises(lambda: truth(2 * good, x)),
            raises(lambda: truth(good - 1, x)),
            *[
                raises(lambda n=n: truth(torch.tensor([[n, 1]]), x))
                for n in (2, -2, 257, -255, 256, torch.iinfo(torch.long).min, torch.iinfo(torch.long).max)
            ],
            raises(lambda: truth(good[:, :1], x)),
            raises(lambda: truth(good, x[:, :1])),
        ],
    }


@case(seeds=3, covers=["src/fuzzy.py"])
def regression_prompts(tree, rng):
    prompts = tree.load("fuzzy").prompts
    runs = []
    for batch, number, variables, points in [(3, 2, 3, 5), (1, 1, 2, 1), (2, 3, 1, 4)]:
        terms = rng.torch.integers(-1, 2, batch, number, variables)
        x = rng.torch.uniform(batch, points, variables)
        before = x.clone()
        tokens, missing = prompts(terms, x)
        untouched = torch.equal(x, before)
        runs.append({"x": x, "tokens": tokens, "missing": missing, "untouched": untouched})
    return runs


@case(seeds=3, covers=["src/fuzzy.py"])
def compositional_splits(tree, rng):
    fuzzy = tree.load("fuzzy")
    runs = []
    for variables, terms, count in [(2, 2, 2), (2, 2, 0), (3, 2, 9), (2, 3, 1), (3, 3, 20)]:
        functions = fuzzy.all_functions(variables, terms)
        order = rng.torch.permutation(len(functions)).tolist()
        known, held = fuzzy.hold_out(functions, order, count)
        runs.append({"known": known, "held": held, "terms": functions, "count": count})
    letters = [("a", "b"), ("a", "c"), ("b", "c"), ("d", "a"), ("b", "a")]
    order = rng.torch.permutation(5).tolist()
    return {
        "runs": runs,
        "letters": [fuzzy.hold_out(letters, list(o), 1) for o in ([3, 0, 1, 2, 4], [1, 2, 0, 3, 4])],
        "two": fuzzy.hold_out(letters, [3, 4, 2, 1, 0], 2),
        "refused": [raises(lambda n=n: fuzzy.hold_out(letters, order, n)) for n in (0, 1, 4, 5, 6)],
        "short": [raises(lambda n=n: fuzzy.hold_out(letters, [3, 0], n)) for n in (1, 2)],
        "nothing": fuzzy.hold_out([], [], 0),
    }


@case(seeds=3, covers=["src/raven.py"])
def rows_of_all_rules(tree, rng):
    rows = tree.load("raven").feature_rows
    runs = []
    for rule in range(8):
        for values in (8, 3):
            draws = rng.numpy.integers(0, values, (3, 3))
            found = rows(rule, draws, values)
            runs.append({"rule": rule, "values": values, "draws": draws, "rows": found})
    draws = rng.numpy.integers(0, 8, (3, 3)).astype(np.int32)
    return {
        "runs": runs,
        "narrow": [rows(rule, draws, 8) for rule in (0, 5, 7)],
        "bytes": [
            rows(rule, rng.numpy.integers(0, values, (3, 3)).astype(kind), values)
            for rule in range(8)
            for kind, values in ((np.uint8, 7), (np.int8, 100), (np.uint8, 200), (np.uint64, 9))
        ],
        "refused": [raises(lambda r=r: rows(r, draws, 8)) for r in (-1, 0, 7, 8, 99)],
    }


@case(seeds=3, covers=["src/raven.py"])
def puzzles(tree, rng):
    raven = tree.load("raven")
    runs = []
    for number, values in [(3, 8), (1, 4), (5, 3), (2, 6)]:
        rules = rng.numpy.integers(0, 8, number)
        draws = rng.numpy.integers(0, values, (number, 3, 3))
        orders = np.stack([rng.numpy.permutation(number) for _ in range(3)])
        tokens, solution = raven.puzzle(rules, draws, orders, values)
        runs.append(
            {
                "rules": rules,
                "draws": draws,
                "orders": orders,
                "values": values,
                "tokens": tokens,
                "solution": solution,
            }
        )
    rules, draws = np.array([0, 5]), rng.numpy.integers(0, 4, (2, 3, 3))
    plain = np.array([[0, 1], [1, 0], [0, 1]])

    def tried(orders, rules=rules):
        return raises(lambda: raven.puzzle(rules, draws, np.array(orders), 4))

    return {
        "runs": runs,
        "refused": [
            tried(plain),
            tried([[0, 1], [1, 1], [0, 1]]),
            tried([[0, 0], [1, 0], [0, 1]]),
            tried([[0, 1], [1, 0], [0, 2]]),
            tried(plain[:2]),
            tried(np.zeros((3, 1), dtype=int)),
            tried(plain[:1]),
            tried(plain, np.array([0, 8])),
        ],
    }


def filled(rng, model, std=0.4):
    """A model with random weights, in float64."""
    model = model.double()
    for weight in model.parameters():
        weight.data.copy_(rng.torch.normal(*weight.shape, std=std))
    return model


@case(seeds=2, rtol=1e-5, atol=1e-8, covers=["src/transformer.py"])
def blocks_and_transformers(tree, rng):
    module = tree.load("transformer")
    found = {}
    for kind in ("softmax", "hyla"):
        block = filled(rng, module.Block(6, 3, kind))
        x = rng.torch.normal(2, 4, 6).double().requires_grad_()
        mask = torch.ones(4, 4).tril() > 0
        free, codes = block(x)
        causal, _ = block(x, mask)
        (gradient,) = torch.autograd.grad((causal * torch.arange(6)).sum(), x)
        model = filled(rng, module.Transformer(5, 3, 7, 6, 2, depth=3, kind=kind))
        tokens = rng.torch.normal(2, 6, 5).double()
        outputs, last = model(tokens)
        pull = (outputs * torch.arange(3)).sum() + (last * rng.torch.normal(*last.shape)).sum()
        gradients = torch.autograd.grad(pull, list(model.parameters()))
        found[kind] = {
            "free": free,
            "causal": causal,
            "block_codes": codes,
            "gradient": gradient,
            "outputs": outputs,
            "codes": last,
            "gradients": list(gradients),
            "short": model(tokens[:, :3])[0],
            "full": model(rng.torch.normal(1, 7, 5).double())[0],
        }
    return found


@case(seeds=3, covers=["src/transformer.py"])
def puzzle_losses(tree, rng):
    loss_of = tree.load("transformer").raven_loss
    runs = []
    for batch, number, values in [(6, 2, 3), (4, 1, 5), (3, 4, 2), (1, 3, 3)]:
        outputs = rng.torch.normal(batch, number * values).double().requires_grad_()
        solutions = rng.torch.integers(0, values, batch, number)
        loss, accuracy = loss_of(outputs, solutions)
        (gradient,) = torch.autograd.grad(loss, outputs)
        runs.append(
            {
                "outputs": outputs.clone(),
                "solutions": solutions,
                "loss": loss,
                "accuracy": accuracy,
                "gradient": gradient,
            }
        )
    solutions = rng.torch.integers(0, 4, 5, 2)
    sure = 9.0 * torch.nn.functional.one_hot(solutions, 4).flatten(1).float()
    sure[0] = -sure[0]
    return {"runs": runs, "sure": loss_of(sure, solutions)}


@case(seeds=1, rtol=1e-9, atol=1e-12, covers=["src/training.py"])
def learning_rates(tree, rng):
    rate = tree.load("training").learning_rate
    peak = float(rng.numpy.uniform(0.5, 2.0))
    return {
        "peak": peak,
        "warm": [rate(n, peak, 4, 20) for n in range(24)],
        "cold": [rate(n, peak, 0, 7) for n in range(9)],
        "short": [rate(n, peak, 2, 3) for n in range(5)],
        "refused": [
            raises(lambda n=n, w=w, t=t: rate(n, peak, w, t))
            for n, w, t in [(0, 0, 1), (0, 1, 1), (0, -1, 5), (-1, 2, 5), (0, 5, 4), (0, 0, 0)]
        ],
    }


@case(seeds=2, rtol=1e-6, atol=1e-10, covers=["src/training.py"])
def parameters_of_all_shapes(tree, rng):
    """Two steps of parameters that something else looks at, with gradients of somebody else in their fields."""
    step = tree.load("training").training_step
    shapes = {"number": (), "vector": (3,), "one": (1,), "small": (1, 1), "row": (1, 4), "cube": (2, 3, 2)}
    model = torch.nn.Module()
    for name, shape in shapes.items():
        model.register_parameter(name, torch.nn.Parameter(torch.ones(shape).double() + rng.torch.normal(*shape)))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    views = {name: p.detach() for name, p in model.named_parameters()}
    for p in model.parameters():
        p.grad = torch.full_like(p, 7.0)
    asked, moments = [], {}

    def loss():
        asked.append(1)
        return sum((p * p).sum() for p in model.parameters())

    told = [step(model, loss, moments, n, 0.05, decay=0.4) for n in range(2)]
    return {
        "before": before,
        "told": told,
        "views": {name: view.clone() for name, view in views.items()},
        "fields": [p.grad for p in model.parameters()],
        "asked": len(asked),
        "moments": {name: list(pair) for name, pair in moments.items()},
    }


@case(seeds=2, rtol=1e-6, atol=1e-10, covers=["src/training.py"])
def steps_of_training(tree, rng):
    step = tree.load("training").training_step
    found = []
    for options in [
        {},
        {"largest_norm": 1e9},
        {"decay": 0.0, "largest_norm": 0.01},
        {"betas": (0.7, 0.8), "eps": 0.3, "decay": 0.5},
    ]:
        model = filled(rng, torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)))
        x, y = rng.torch.normal(6, 3).double(), 3.0 * rng.torch.normal(6, 2).double()
        before = {n: p.detach().clone() for n, p in model.named_parameters()}
        first = torch.autograd.grad((model(x) - y).square().mean(), list(model.parameters()))
        moments = {}
        told = [
            step(model, lambda: (model(x) - y).square().mean(), moments, n, 0.05, **options)
            for n in range(3)
        ]
        found.append(
            {
                "before": before,
                "first_gradients": list(first),
                "told": told,
                "after": {n: p.detach().clone() for n, p in model.named_parameters()},
                "moments": {n: list(pair) for n, pair in moments.items()},
                "fields": [p.grad is None for p in model.parameters()],
            }
        )
    flat = filled(rng, torch.nn.Linear(2, 2))
    moments = {}
    told = step(flat, lambda: 0.0 * sum(p.sum() for p in flat.parameters()), moments, 0, 0.1)
    found.append({"told": list(told), "weight": flat.weight, "bias": flat.bias})
    return found
