"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import copy
import io

import numpy as np
import torch
from torch import nn

from rcb_env.cases import case, raises

# --- weighting ----------------------------------------------------------------------------------


@case(seeds=1, covers=["src/weighting.py"])
def warm_up_factors(tree, rng):
    factor = tree.load("weighting").warmup_factor
    drawn = rng.numpy.integers(1, 60, (12, 2))
    return {
        "drawn": [factor(int(step), int(warm_up)) for step, warm_up in drawn],
        "ten": [factor(step, 10) for step in range(1, 14)],
        "two": [factor(step, 2) for step in range(1, 4)],
        "one": [factor(step, 1) for step in (1, 2, 3)],
        "none": [factor(step, 0) for step in (1, 2, 50)],
        "types": [type(factor(step, n)).__name__ for step, n in ((1, 0), (3, 2), (1, 2))],
        "bad": [
            raises(lambda: factor(0, 3)),
            raises(lambda: factor(0, 0)),
            raises(lambda: factor(-2, 3)),
            raises(lambda: factor(1, -1)),
            raises(lambda: factor(4, -3)),
            raises(lambda: factor(0, -1)),
        ],
    }


@case(seeds=3, rtol=1e-9, atol=1e-12, covers=["src/weighting.py"])
def coefficients_over_many_steps(tree, rng):
    weighting = tree.load("weighting")
    settings = [(0.0, 2.0), (0.0, 2.0), (1.0, 0.0), (2.0, 1.0), (0.5, 3.0), (0.0, 0.0), (3.0, 2.0)]
    runs = []
    for r, power in settings:
        progress = weighting.Progress()
        size = 1e-6 if len(runs) in (1, 3) else 1.0
        lrs = [float(lr) for lr in size * rng.numpy.uniform(0.05, 1.5, 9)]
        rows = []
        for lr in lrs:
            before = tuple(progress)
            c, after = weighting.averaging_coefficient(progress, lr, r, power)
            rows.append(
                {
                    "c": float(c),
                    "step": after.step,
                    "lr_max": float(after.lr_max),
                    "weight_sum": float(after.weight_sum),
                    "type": type(after).__name__,
                    "untouched": before == tuple(progress),
                }
            )
            progress = after
        runs.append({"lrs": lrs, "r": r, "power": power, "rows": rows})
    return runs


@case(seeds=1, rtol=1e-9, atol=1e-12, covers=["src/weighting.py"])
def coefficients_of_steps_without_length(tree, rng):
    weighting = tree.load("weighting")
    outputs = {}
    for name, power in (("squared", 2.0), ("uniform", 0.0)):
        progress, rows = weighting.Progress(), []
        for lr in (0.0, 0.0, 0.5, 0.0, 0.25, 2.0):
            c, progress = weighting.averaging_coefficient(progress, lr, 0.0, power)
            rows.append([float(c), float(progress.weight_sum), float(progress.lr_max)])
        outputs[name] = rows
    late = weighting.Progress(step=6, lr_max=0.25, weight_sum=4.0)
    c, after = weighting.averaging_coefficient(late, 0.125, 1.0, 1.0)
    outputs["late"] = [float(c), int(after.step), float(after.lr_max), float(after.weight_sum)]
    return outputs


# --- points -------------------------------------------------------------------------------------


@case(seeds=3, rtol=1e-5, atol=1e-5, covers=["src/points.py"])
def the_average_from_y_and_z(tree, rng):
    points = tree.load("points")
    runs = []
    for beta, shape in ((0.9, (3, 4)), (0.5, (6,)), (1.0, (2, 1, 3)), (0.25, ()), (1, (5,))):
        x, z = rng.torch.normal(*shape), rng.torch.normal(*shape, mean=1.0)
        y = points.gradient_point(x, z, beta)
        kept = y.clone(), z.clone()
        got = points.average_point(y, z, beta)
        runs.append(
            {
                "x": x,
                "got": got,
                "untouched": bool(torch.equal(y, kept[0]) and torch.equal(z, kept[1])),
                "double": points.average_point(y.double(), z.double(), beta),
                "matrix": points.average_point(torch.ones(2, 3), torch.zeros(3), beta),
            }
        )
    return runs


# --- optimisers ---------------------------------------------------------------------------------


def parameters(rng, dtype=torch.float64, shapes=((3, 2), (4,), ())):
    return [nn.Parameter(rng.torch.normal(*shape).to(dtype)) for shape in shapes]


def set_gradients(params, targets):
    """The gradient of sum (p - target)^4 / 4: nonlinear, so it matters where it is taken."""
    for p, target in zip(params, targets, strict=True):
        p.grad = (p.detach() - target) ** 3


def look(optimizer):
    """Parameters, z and v, and the numbers of the groups, as copies."""
    groups = []
    for group in optimizer.param_groups:
        states = [optimizer.state[p] if p in optimizer.state else {} for p in group["params"]]
        groups.append(
            {
                "p": [p.detach().clone() for p in group["params"]],
                "z": [s["z"].clone() if "z" in s else None for s in states],
                "v": [s["v"].clone() if "v" in s else None for s in states],
                "updates": [int(s["updates"]) if "updates" in s else None for s in states],
                "step": int(group["step"]),
                "lr_max": float(group["lr_max"]),
                "weight_sum": float(group["weight_sum"]),
                "training": group["training"],
            }
        )
    return groups


def run(optimizer, params, targets, steps):
    """What the optimiser looks like after each step, once with y and once with x in the parameters."""
    seen = []
    for _ in range(steps):
        set_gradients(params, targets)
        returned = optimizer.step()
        row = {"returned": returned, "train": look(optimizer)}
        optimizer.eval()
        row["x"] = [p.detach().clone() for p in params]
        optimizer.train()
        seen.append(row)
    return seen


@case(seeds=2, rtol=1e-7, atol=1e-9, covers=["src/optimizers.py"])
def sgd_with_all_settings(tree, rng):
    make = tree.load("optimizers").ScheduleFreeSGD
    settings = [
        {"lr": 0.05},
        {"lr": 0.1, "beta": 0.7, "warmup_steps": 3, "weight_decay": 0.3},
        {"lr": 0.1, "beta": 0.6, "weight_decay": 0.4, "decay_at": "z", "r": 1.0, "warmup_steps": 2},
        {"lr": 0.04, "beta": 1.0, "weight_power": 0.0, "r": 2.0},
        {"lr": 0.0, "warmup_steps": 2},
    ]
    outputs = []
    for setting in settings:
        params = parameters(rng, shapes=((3, 2), (2,)))
        targets = [rng.torch.normal(*p.shape).double() for p in params]
        start = [p.detach().clone() for p in params]
        seen = run(make(params, **setting), params, targets, 4)
        outputs.append({"start": start, "targets": targets, "setting": setting, "seen": seen})
    return outputs


@case(seeds=2, rtol=1e-7, atol=1e-9, covers=["src/optimizers.py"])
def adamw_with_all_settings(tree, rng):
    make = tree.load("optimizers").ScheduleFreeAdamW
    settings = [
        {},
        {"lr": 0.05, "eps": 0.2, "beta2": 0.8, "warmup_steps": 3, "weight_decay": 0.2},
        {"lr": 0.1, "beta": 0.5, "beta2": 0.0, "weight_decay": 0.1, "decay_at": "z", "r": 0.5},
    ]
    outputs = []
    for setting in settings:
        params = parameters(rng, shapes=((3, 2), (2,)))
        targets = [rng.torch.normal(*p.shape).double() for p in params]
        start = [p.detach().clone() for p in params]
        seen = run(make(params, **setting), params, targets, 4)
        outputs.append({"start": start, "targets": targets, "setting": setting, "seen": seen})
    return outputs


@case(seeds=1, rtol=1e-4, atol=1e-5, covers=["src/optimizers.py"])
def float32_parameters_keep_their_dtype(tree, rng):
    module = tree.load("optimizers")
    outputs = {}
    for name in ("ScheduleFreeSGD", "ScheduleFreeAdamW"):
        params = parameters(rng, torch.float32, shapes=((2, 3), ()))
        targets = [rng.torch.normal(*p.shape) for p in params]
        optimizer = getattr(module, name)(params, 0.05, weight_decay=0.1)
        outputs[name] = run(optimizer, params, targets, 3)
    return outputs


@case(seeds=2, rtol=1e-7, atol=1e-9, covers=["src/optimizers.py"])
def several_groups_with_their_own_settings(tree, rng):
    module = tree.load("optimizers")
    outputs = {}
    for name in ("ScheduleFreeSGD", "ScheduleFreeAdamW"):
        params = parameters(rng, shapes=((2,), (3,), (2, 2)))
        targets = [rng.torch.normal(*p.shape).double() for p in params]
        groups = [
            {"params": params[:2], "warmup_steps": 3, "weight_decay": 0.5, "beta": 0.8},
            {"params": params[2:], "lr": 0.02, "r": 1.0, "decay_at": "z", "weight_power": 1.0},
        ]
        optimizer = getattr(module, name)(groups, 0.06)
        outputs[name] = run(optimizer, params, targets, 2)
        late = nn.Parameter(rng.torch.normal(3).double())
        optimizer.add_param_group({"params": [late], "warmup_steps": 2})
        params, targets = [*params, late], [*targets, torch.zeros(3).double()]
        outputs[name] += run(optimizer, params, targets, 2)
        optimizer.param_groups[0]["lr"] = 0.01
        outputs[name] += run(optimizer, params, targets, 1)
    return outputs


@case(seeds=1, rtol=1e-7, atol=1e-9, covers=["src/optimizers.py"])
def parameters_without_a_gradient_wait(tree, rng):
    module = tree.load("optimizers")
    outputs = {}
    for name in ("ScheduleFreeSGD", "ScheduleFreeAdamW"):
        params = parameters(rng, shapes=((2,), (3,), (2,)))
        targets = [rng.torch.normal(*p.shape).double() for p in params]
        optimizer = getattr(module, name)(params, 0.1, weight_decay=0.2)
        seen = []
        for present in ((0,), (0, 2), (2,), (0, 1, 2)):
            set_gradients(params, targets)
            for index, p in enumerate(params):
                if index not in present:
                    p.grad = None
            optimizer.step()
            seen.append({"train": look(optimizer), "known": [p in optimizer.state for p in params]})
            optimizer.eval()
            seen.append({"eval": look(optimizer), "known": [p in optimizer.state for p in params]})
            optimizer.train()
        outputs[name] = seen
    return outputs


@case(seeds=1, rtol=1e-7, atol=1e-9, covers=["src/optimizers.py"])
def switching_between_x_and_y(tree, rng):
    module = tree.load("optimizers")
    params = parameters(rng, shapes=((3,), (2, 2)))
    targets = [rng.torch.normal(*p.shape).double() for p in params]
    identities = [id(p) for p in params]
    memory = [p.data_ptr() for p in params]
    optimizer = module.ScheduleFreeSGD(params, 0.1, beta=0.75)
    seen = [look(optimizer)]
    for switch in ("eval", "train"):
        getattr(optimizer, switch)()
        seen.append(look(optimizer))
    for _ in range(3):
        set_gradients(params, targets)
        optimizer.step()
    modes = []
    for switch in ("train", "eval", "eval", "train", "train", "eval"):
        getattr(optimizer, switch)()
        seen.append(look(optimizer))
        modes.append(optimizer.training)
    error = raises(optimizer.step)
    seen.append(look(optimizer))
    called = []
    closure_error = raises(lambda: optimizer.step(lambda: called.append(1)))
    optimizer.train()
    optimizer.param_groups[0]["beta"] = 0.5
    optimizer.eval()
    seen.append(look(optimizer))
    return {
        "seen": seen,
        "modes": modes,
        "errors": [error, closure_error],
        "closure_called": len(called),
        "same_parameters": identities == [id(p) for p in params],
        "same_memory": memory == [p.data_ptr() for p in params],
        "requires_grad": [p.requires_grad for p in params],
    }


@case(seeds=1, rtol=1e-7, atol=1e-9, covers=["src/optimizers.py"])
def groups_in_different_modes(tree, rng):
    module = tree.load("optimizers")
    params = parameters(rng, shapes=((3,), (2,)))
    targets = [rng.torch.normal(*p.shape).double() for p in params]
    optimizer = module.ScheduleFreeSGD([{"params": [p]} for p in params], 0.1)
    for _ in range(2):
        set_gradients(params, targets)
        optimizer.step()
    optimizer.eval()
    late = nn.Parameter(rng.torch.normal(2).double())
    optimizer.add_param_group({"params": [late]})
    mixed = raises(optimizer.step), look(optimizer)
    optimizer.eval()
    all_at_x = raises(optimizer.step), look(optimizer)
    optimizer.train()
    set_gradients([*params, late], [*targets, torch.zeros(2).double()])
    optimizer.step()
    after = look(optimizer)
    groups = list(optimizer.param_groups)
    optimizer.param_groups[:] = groups[:1]
    optimizer.eval()
    optimizer.param_groups[:] = groups
    apart = [optimizer.training, raises(optimizer.step), look(optimizer)]
    optimizer.train()
    together = look(optimizer)
    optimizer.param_groups[:] = groups[1:]
    optimizer.eval()
    optimizer.param_groups[:] = groups
    optimizer.eval()
    everything = look(optimizer)
    return {
        "mixed": mixed,
        "all_at_x": all_at_x,
        "after": after,
        "apart": apart,
        "together": together,
        "everything": everything,
    }


@case(seeds=1, rtol=1e-7, atol=1e-9, covers=["src/optimizers.py"])
def tensors_that_are_changed_in_place(tree, rng):
    module = tree.load("optimizers")
    outputs = {}
    for name in ("ScheduleFreeSGD", "ScheduleFreeAdamW"):
        params = parameters(rng, shapes=((2, 3), (2,)))
        targets = [rng.torch.normal(*p.shape).double() for p in params]
        optimizer = getattr(module, name)([{"params": [p]} for p in params], 0.1, warmup_steps=3)

        def memory(optimizer=optimizer, params=params):
            states = [optimizer.state[p] for p in params[:1]]
            kept = [s[key].data_ptr() for s in states for key in ("z", "v") if key in s]
            return kept + [p.data_ptr() for p in params]

        seen = []
        set_gradients(params, targets)
        params[1].grad = None
        optimizer.step()
        before = memory()
        for _ in range(2):
            set_gradients(params, targets)
            params[1].grad = None
            optimizer.step()
            seen.append({"same": memory() == before, "look": look(optimizer)})
        loss = torch.tensor(3.0, requires_grad=True)
        outputs[name] = {"seen": seen, "the loss itself": optimizer.step(lambda: loss) is loss}
    return outputs


@case(seeds=1, rtol=1e-7, atol=1e-9, covers=["src/optimizers.py"])
def a_closure_computes_the_loss_at_y(tree, rng):
    module = tree.load("optimizers")
    outputs = {}
    for name in ("ScheduleFreeSGD", "ScheduleFreeAdamW"):
        (p,) = parameters(rng, shapes=((4,),))
        optimizer = getattr(module, name)([p], 0.05, warmup_steps=2)
        rows, calls = [], []

        def closure(p=p, optimizer=optimizer, calls=calls):
            calls.append(torch.is_grad_enabled())
            optimizer.zero_grad()
            loss = (p**4).sum()
            loss.backward()
            return loss

        for _ in range(3):
            before = float((p.detach() ** 4).sum())
            loss = optimizer.step(closure)
            rows.append({"before": before, "loss": loss, "after": look(optimizer)})
        outputs[name] = {"rows": rows, "calls": calls, "needs_grad": p.requires_grad}
    return outputs


@case(seeds=1, rtol=1e-7, atol=1e-9, covers=["src/optimizers.py"])
def a_saved_run_goes_on_as_if_nothing_had_happened(tree, rng):
    module = tree.load("optimizers")
    outputs = {}
    for name in ("ScheduleFreeSGD", "ScheduleFreeAdamW"):
        params = parameters(rng)
        targets = [rng.torch.normal(*p.shape).double() for p in params]
        make = getattr(module, name)
        optimizer = make(params, 0.05, warmup_steps=5, weight_decay=0.1, r=1.0)
        run(optimizer, params, targets, 2)
        optimizer.eval()
        buffer = io.BytesIO()
        torch.save({"p": [p.detach() for p in params], "o": optimizer.state_dict()}, buffer)
        buffer.seek(0)
        saved = torch.load(buffer, weights_only=False)
        others = [nn.Parameter(p.clone()) for p in saved["p"]]
        other = make(others, 1.0)
        other.load_state_dict(saved["o"])
        loaded = look(other)
        for each in (optimizer, other):
            each.train()
        outputs[name] = {
            "loaded": loaded,
            "gone_on": run(optimizer, params, targets, 2),
            "resumed": run(other, others, targets, 2),
        }
    return outputs


@case(seeds=1, rtol=1e-5, atol=1e-6, covers=["src/optimizers.py"])
def adam_directions(tree, rng):
    module = tree.load("optimizers")
    p = nn.Parameter(torch.zeros(3))
    optimizer = module.ScheduleFreeAdamW([p])
    outputs = []
    for beta2, eps in ((0.9, 0.5), (0.999, 1e-8), (0.0, 0.25), (0.5, 0.0)):
        group = {**optimizer.param_groups[0], "beta2": beta2, "eps": eps}
        state, rows = {"z": torch.zeros(3)}, []
        for _ in range(4):
            grad = rng.torch.normal(3, mean=0.5)
            kept = grad.clone()
            direction = optimizer.direction(grad, state, group)
            rows.append(
                {
                    "grad": kept,
                    "direction": direction.clone(),
                    "v": state["v"].clone(),
                    "updates": int(state["updates"]),
                    "untouched": bool(torch.equal(grad, kept)),
                }
            )
        outputs.append({"beta2": beta2, "eps": eps, "rows": rows})
    still = optimizer.direction(torch.zeros(2), {}, optimizer.param_groups[0])
    first = optimizer.direction(torch.tensor([3.0, -2.0]), {}, optimizer.param_groups[0])
    return {"runs": outputs, "still": still, "first": first}


# --- the online-to-batch view ---------------------------------------------------------------------


@case(seeds=3, rtol=1e-9, atol=1e-12, covers=["src/online_to_batch.py"])
def matrices_of_the_averages(tree, rng):
    module = tree.load("online_to_batch")
    weights = rng.numpy.uniform(0.2, 2.0, 6)
    with_zeros = np.array([0.5, 0.0, 2.0, 0.0])
    betas = rng.numpy.uniform(0.0, 1.0, 6)
    arguments = [
        (weights, 0.9),
        (weights, betas),
        (weights.astype(np.float32), 1),
        (weights, (betas / 2).astype(np.float32)),
        ([3, 1, 2], [0.0, 1.0, 0.5]),
        (with_zeros, 0.25),
        ([0.5], 0.5),
        ((1, 1, 1, 1, 1), 0),
        ([1.0, 0.0], 0.75),
        ([1e-12, 1.0, 1e-12], 0.5),
        ([2.0, 1.0, 3.0], [0.25]),
    ]
    outputs = []
    for w, beta in arguments:
        x, y = module.averaging_matrices(w, beta)
        outputs.append({"w": np.asarray(w), "beta": np.asarray(beta), "x": x, "y": y})
    weights.setflags(write=False)
    return {"runs": outputs, "kept": weights}


@case(seeds=1, covers=["src/online_to_batch.py"])
def arguments_that_make_no_average(tree, rng):
    make = tree.load("online_to_batch").averaging_matrices
    bad = [
        (1.0, 0.5),
        ([], 0.5),
        ([[1.0], [2.0]], 0.5),
        (np.ones((2, 2)), 0.5),
        (np.ones((1, 3)), 0.5),
        ([0.0, 1.0], 0.5),
        ([1.0, -0.5, 2.0], 0.5),
        ([-1.0, -1.0], 0.5),
        ([1.0, 1.0], -0.5),
        ([1.0, 1.0], 1.5),
        ([1.0, 1.0], [0.5, -0.25]),
        ([1.0, 1.0], [0.5, 1.25]),
        ([1.0, 1.0, 1.0], [0.5, 0.5]),
    ]
    return [raises(lambda w=w, beta=beta: make(w, beta)) for w, beta in bad]


@case(seeds=3, rtol=1e-9, atol=1e-12, covers=["src/online_to_batch.py"])
def responses_to_gradients(tree, rng):
    module = tree.load("online_to_batch")
    outputs = []
    for size in (1, 2, 5):
        matrix = np.tril(rng.numpy.uniform(0.1, 1.0, (size, size)))
        matrix /= matrix.sum(axis=1, keepdims=True)
        kept = matrix.copy()
        lrs, gradients = rng.numpy.uniform(0.1, 1.0, size), rng.numpy.normal(size=size)
        response = module.gradient_response(matrix, lrs.tolist())
        outputs.append(
            {
                "matrix": kept,
                "untouched": bool(np.array_equal(matrix, kept)),
                "lrs": lrs,
                "gradients": gradients,
                "response": response,
            }
        )
    return outputs


# --- baselines ------------------------------------------------------------------------------------


def weights_in_single(rng, size):
    return rng.numpy.uniform(0.2, 2.0, size).astype(np.float32)


@case(seeds=3, rtol=1e-8, atol=1e-10, covers=["src/baselines.py"])
def primal_averaging_of_a_nonlinear_gradient(tree, rng):
    module = tree.load("baselines")
    outputs = []
    for steps, width in ((6, 3), (1, 2), (0, 2), (4, 1)):
        start = rng.numpy.normal(size=width)
        kept = start.copy()
        target = rng.numpy.normal(size=width)
        lrs, weights = rng.numpy.uniform(0.1, 0.5, steps), rng.numpy.uniform(0.2, 2.0, steps + 1)
        asked = []

        def gradient(x, asked=asked, target=target):
            asked.append(x.copy())
            return np.tanh(x - target)

        x = module.primal_averaging(gradient, start, lrs, weights)
        outputs.append(
            {
                "x": x,
                "asked": asked,
                "start": kept,
                "untouched": bool(np.array_equal(start, kept)),
                "target": target,
                "lrs": lrs,
                "weights": weights,
            }
        )
    plain = module.primal_averaging(lambda x: x - 1, [0, 4], [1, 1, 1], [1, 2, 3, 4])
    single = module.primal_averaging(
        lambda x: x - 1, [5, 40], np.full(4, 0.7, np.float32), weights_in_single(rng, 5)
    )
    nothing = module.primal_averaging(lambda x: x, [2, 3], [], [1])
    return {"runs": outputs, "plain": plain, "single": single, "nothing": nothing}


@case(seeds=1, covers=["src/baselines.py"])
def weights_that_do_not_fit_the_steps(tree, rng):
    run = tree.load("baselines").primal_averaging
    bad = [
        ([0.1, 0.1], [1.0, 1.0]),
        ([0.1, 0.1], [1.0, 1.0, 1.0, 1.0]),
        ([0.1], [1.0]),
        ([0.1], [0.5, 0.0]),
        ([0.1], [0.0, 0.5]),
        ([0.1, 0.1], [1.0, -0.5, 1.0]),
        ([0.1], [0.25, 0.5]),
    ]
    return [raises(lambda lrs=lrs, w=w: run(lambda x: x, [1.0], lrs, w)) for lrs, w in bad]


# --- training -------------------------------------------------------------------------------------


def network(rng, *, dropout=0.4):
    """A model with two BatchNorm layers of different momenta, a frozen one, and dropout."""
    model = nn.Sequential(
        nn.Linear(3, 4),
        nn.BatchNorm1d(4, momentum=0.3),
        nn.Tanh(),
        nn.Dropout(dropout),
        nn.Linear(4, 4),
        nn.BatchNorm1d(4, momentum=None),
        nn.Linear(4, 2),
    ).double()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(rng.torch.normal(*p.shape))
        for layer in (model[1], model[5]):
            layer.running_mean.copy_(rng.torch.normal(4))
            layer.running_var.copy_(rng.torch.uniform(4, low=0.5, high=2.0))
            layer.num_batches_tracked.fill_(7)
    return model


def statistics(model):
    return {
        "buffers": {name: value.clone() for name, value in model.named_buffers()},
        "parameters": {name: value.clone() for name, value in model.named_parameters()},
        "modes": [module.training for module in model.modules()],
        "momenta": [m.momentum for m in model.modules() if hasattr(m, "momentum")],
        "grads": [p.grad is None for p in model.parameters()],
    }


@case(seeds=2, rtol=1e-8, atol=1e-10, covers=["src/training.py"])
def statistics_of_batch_norm(tree, rng):
    module = tree.load("training")
    outputs = {}
    for name in ("training", "evaluating", "mixed"):
        model = network(rng)
        model.train(name != "evaluating")
        if name == "mixed":
            model[1].eval()
            model[4].eval()
        batches = [rng.torch.normal(n, 3, mean=1.0).double() for n in (6, 4, 9)]
        result = module.recalibrate_batch_norm(model, batches)
        first = [model[0](b).detach() for b in batches]
        outputs[name] = {
            "returned": result,
            "inputs_of_the_first": first,
            "grad_enabled": torch.is_grad_enabled(),
            **statistics(model),
        }
    return outputs


@case(seeds=1, rtol=1e-8, atol=1e-10, covers=["src/training.py"])
def batch_norm_when_something_is_wrong(tree, rng):
    module = tree.load("training")
    model = network(rng)
    model[3].eval()
    none = raises(lambda: module.recalibrate_batch_norm(model, []))
    after_none = statistics(model)
    batches = [rng.torch.normal(5, 3).double(), rng.torch.normal(5, 2).double()]
    broken = raises(lambda: module.recalibrate_batch_norm(model, batches))
    after_broken = statistics(model)
    grads = []
    images = nn.Sequential(nn.BatchNorm2d(2, affine=False), nn.Flatten()).double()
    images.eval()
    images[1].register_forward_hook(lambda *_: grads.append(torch.is_grad_enabled()))
    module.recalibrate_batch_norm(images, [rng.torch.normal(2, 2, 3, 3, std=3.0).double()])
    plain = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5)).double()
    before = copy.deepcopy(plain.state_dict())
    module.recalibrate_batch_norm(plain, batches[:1])
    return {
        "errors": [none, broken],
        "after_none": after_none,
        "after_broken": after_broken,
        "images": statistics(images),
        "grad_enabled_within": grads,
        "plain_modes": [m.training for m in plain.modules()],
        "plain_kept": all(torch.equal(v, before[k]) for k, v in plain.state_dict().items()),
    }


class OwnNorm(nn.modules.batchnorm._BatchNorm):
    """A BatchNorm layer of a kind that torch does not know."""

    def _check_input_dim(self, input):
        pass


@case(seeds=2, rtol=1e-8, atol=1e-10, covers=["src/training.py"])
def batch_norm_of_every_kind(tree, rng):
    module = tree.load("training")
    outputs = {}
    for name, layer, shape in [
        ("line", nn.BatchNorm1d(3), (5, 3, 4)),
        ("image", nn.BatchNorm2d(3), (4, 3, 2, 2)),
        ("volume", nn.BatchNorm3d(3, momentum=0.4), (4, 3, 2, 2, 3)),
        ("synchronised", nn.SyncBatchNorm(3), (4, 3, 2, 2)),
        ("own", OwnNorm(3), (4, 3, 2)),
        ("instance", nn.InstanceNorm1d(3, affine=True, track_running_stats=True), (4, 3, 5)),
    ]:
        model = nn.Sequential(layer, nn.Flatten()).double().eval()
        layer.running_mean.copy_(rng.torch.normal(3))
        with torch.no_grad():
            layer.weight.copy_(rng.torch.normal(3))
        batches = [rng.torch.normal(*shape, mean=m, std=2.0).double() for m in (-1.0, 0.0, 3.0)]
        module.recalibrate_batch_norm(model, batches)
        outputs[name] = statistics(model)
    return outputs


@case(seeds=1, rtol=1e-6, atol=1e-8, covers=["src/training.py"])
def a_whole_run_with_batch_norm(tree, rng):
    training, optimizers = tree.load("training"), tree.load("optimizers")
    model = network(rng, dropout=0.0)
    optimizer = optimizers.ScheduleFreeAdamW(model.parameters(), 0.05, warmup_steps=2)
    loss = nn.functional.mse_loss
    batches = []
    for _ in range(3):
        inputs = rng.torch.normal(6, 3).double()
        batches.append((inputs, inputs[:, :2].square()))
    losses = [training.train_epoch(model, optimizer, batches, loss) for _ in range(2)]
    tested = training.evaluate(model, optimizer, batches, loss)
    again = training.evaluate(model, optimizer, batches, loss)
    return {"losses": losses, "tested": tested, "again": again, **statistics(model)}
