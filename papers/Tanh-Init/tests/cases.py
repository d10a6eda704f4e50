"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import math

import torch
from torch import nn

from rcb_env.cases import case, raises

INF, NAN = math.inf, math.nan


def network_of(tree, rng, widths, scale=1.0):
    """A double-precision network with weights and biases from the case's generator."""
    network = tree.load("network").TanhNetwork(widths).double()
    with torch.no_grad():
        for layer in network.layers:
            n_out, n_in = layer.weight.shape
            layer.weight.copy_(scale * rng.torch.normal(n_out, n_in).double() / n_in**0.5)
            layer.bias.copy_(0.3 * rng.torch.normal(n_out).double())
    return network


def parameters(network):
    """All parameters by name."""
    return {name: value.detach().clone() for name, value in network.named_parameters()}


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/fixed_points.py"])
def fixed_points_of_random_slopes(tree, rng):
    module = tree.load("fixed_points")
    above = 1.05 + 4 * rng.torch.uniform(3, 5).double()
    below = 0.05 + 0.95 * rng.torch.uniform(6).double()
    before = above.clone()
    fixed = module.positive_fixed_point(above)
    return {
        "slopes": before,
        "above": fixed,
        "image": torch.tanh(above * fixed),
        "below": module.positive_fixed_point(below),
        "number": module.positive_fixed_point(torch.tensor(2.5, dtype=torch.float64)),
        "rates": module.contraction_rate(above),
        "rates of extreme slopes": module.contraction_rate(
            torch.tensor([1.0, 1.0001, 1.001, 6.0, 8.0, 10.0]).double()
        ),
        "rates below": module.contraction_rate(below),
        "slopes below": below,
        "untouched": torch.equal(above, before),
    }


@case(seeds=3, covers=["src/fixed_points.py"])
def fixed_points_with_few_halvings(tree, rng):
    fixed = tree.load("fixed_points").positive_fixed_point
    slopes = (0.7 + 3 * rng.torch.uniform(40)).double()
    single = torch.tensor([1.5, 0.5, 3.0])
    return {
        "few": [fixed(slopes, n) for n in range(9)],
        "single": fixed(single, 4),
        "single rates": tree.load("fixed_points").contraction_rate(single),
    }


@case(seeds=1, covers=["src/fixed_points.py"])
def fixed_points_at_the_edges(tree, rng):
    fixed = tree.load("fixed_points").positive_fixed_point
    double = torch.float64
    return {
        "one": fixed(torch.tensor([1.0, 1.0, 0.3], dtype=double)),
        "one, coarse": fixed(torch.tensor([1.0, 1e-9, 2.0], dtype=double), 0),
        "large": fixed(torch.tensor([10.0, 1000.0], dtype=double)),
        "empty": fixed(torch.zeros(0, 3, dtype=double)),
        "slopes": [
            raises(lambda v=v: fixed(torch.tensor([2.0, v]))) for v in (0.0, -1.0, NAN, -INF, 0.2)
        ],
        "halvings": [raises(lambda n=n: fixed(torch.tensor([2.0]), n)) for n in (-1, -2, 0, 1)],
    }


@case(seeds=3, covers=["src/fixed_points.py"])
def paths_through_scalar_layers(tree, rng):
    follow = tree.load("fixed_points").iterate_slopes
    x = rng.torch.normal(2, 3).double()
    shared = 0.5 + rng.torch.uniform(6).double()
    own = 0.5 + rng.torch.uniform(4, 2, 3).double()
    before = x.clone()
    return {
        "x": before,
        "shared": follow(x, shared),
        "own": follow(x, own),
        "one": follow(x, shared[:1]),
        "steep": follow(x, 30 * shared),
        "number": follow(torch.tensor(0.7), shared.float()),
        "long": follow(x, torch.full((300,), 2.0, dtype=torch.float64))[-1],
        "untouched": torch.equal(x, before),
    }


SHAPES = [(4, 4), (4, 8), (8, 4), (7, 3), (1, 5), (5, 1), (2, 3)]


@case(seeds=1, covers=["src/initialization.py"])
def anchors_of_several_shapes(tree, rng):
    anchors = tree.load("initialization").anchor_matrix
    usual = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        other = anchors(3, 2)
    finally:
        torch.set_default_dtype(usual)
    return {
        "another default": other,
        "very tall": anchors(11, 3),
        **{f"{a} x {b}": anchors(a, b) for a, b in SHAPES},
        "double": anchors(3, 2, torch.float64),
        "half": anchors(2, 3, torch.float16),
    }


@case(seeds=3, covers=["src/initialization.py"])
def proposed_weights(tree, rng):
    init = tree.load("initialization").tanh_init_
    results = {}
    for n_out, n_in in SHAPES:
        for dtype, alpha in [(torch.float32, 0.085), (torch.float64, 0.4), (torch.float64, 0.0)]:
            weight = torch.full((n_out, n_in), 9.0, dtype=dtype)
            memory = weight.data_ptr()
            found = init(weight, alpha, rng.torch.generator())
            results[f"{n_out} x {n_in}, {alpha}"] = {
                "weight": found,
                "noise": torch.randn(n_out, n_in, generator=rng.torch.generator(), dtype=dtype),
                "same": found is weight and found.data_ptr() == memory,
            }
    default = torch.empty(6, 4)
    generator = rng.torch.generator()
    init(default, generator=generator)
    parameter = nn.Parameter(torch.zeros(3, 3))
    init(parameter, 0.1, generator)
    torch.manual_seed(17)
    return {
        "runs": results,
        "default": default,
        "parameter": parameter.detach(),
        "needs gradient": parameter.requires_grad,
        "global": init(torch.zeros(2, 3)),
    }


@case(seeds=1, covers=["src/initialization.py"])
def weights_that_are_refused(tree, rng):
    init = tree.load("initialization").tanh_init_
    return {
        "shapes": [raises(lambda s=s: init(torch.zeros(s))) for s in [(3,), (2, 3, 4), (), (2, 3)]],
        "alpha": [
            raises(lambda v=v: init(torch.zeros(2, 3), v)) for v in (-0.1, INF, NAN, -1.0, 0.0, 5.0)
        ],
    }


class OwnLinear(nn.Linear):
    """A kind of linear layer that only this network has."""


class Nested(nn.Module):
    """Linear layers in several places, some without bias, and other modules between."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 5)
        self.block = nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 2, bias=False), nn.Tanh())
        self.conv = nn.Conv1d(2, 2, 1)
        self.last = nn.Linear(2, 4)
        self.own = OwnLinear(4, 3)


def filled(network):
    """The network, with all parameters set to 7."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(7.0)
    return network


@case(seeds=3, covers=["src/initialization.py"])
def initialized_networks(tree, rng):
    module = tree.load("initialization")
    results = {}
    for method in ("proposed", "xavier_normal", "xavier_uniform"):
        network = filled(Nested())
        count = module.initialize_network_(network, method, 0.3, rng.torch.generator())
        deep = filled(tree.load("network").TanhNetwork([6, 6, 6, 2]).double())
        module.initialize_network_(deep, method, generator=rng.torch.generator())
        results[method] = {
            "count": int(count),
            "nested": parameters(network),
            "deep": parameters(deep),
            "needs gradients": all(p.requires_grad for p in network.parameters()),
        }
    alone = filled(nn.Linear(40, 60))
    module.initialize_network_(alone, generator=rng.torch.generator())
    results["alone"] = parameters(alone)
    kept = filled(Nested())
    results["refused"] = [
        raises(lambda m=m: module.initialize_network_(kept, m)) for m in ("he", "", "Proposed")
    ]
    results["kept"] = all(bool((p == 7).all()) for p in kept.parameters())
    results["no layers"] = [
        raises(lambda: module.initialize_network_(nn.Conv1d(2, 2, 1))),
        raises(lambda: module.initialize_network_(nn.Sequential())),
        raises(lambda: module.initialize_network_(nn.Linear(2, 2))),
        raises(lambda: module.initialize_network_(nn.Linear(2, 2), "xavier_normal", -1.0)),
    ]
    return results


@case(seeds=3, covers=["src/propagation.py"])
def slopes_of_neurons(tree, rng):
    module = tree.load("propagation")
    results = {}
    for n_out, n_in in SHAPES:
        weight = rng.torch.normal(n_out, n_in).double()
        x = rng.torch.normal(5, n_in).double()
        x = x.sign() * (0.2 + x.abs())
        holes = x.clone()
        holes[1, 0] = 0
        holes[2] = 0
        before = holes.clone()
        results[f"{n_out} x {n_in}"] = {
            "weight": weight,
            "x": x,
            "slopes": module.effective_slopes(weight, x),
            "holes": module.effective_slopes(weight, holes),
            "faint": [module.effective_slopes(weight, scale * x) for scale in (1e-9, 1e-14)],
            "deviation": module.slope_deviation(x, 0.3),
            "deviation of holes": module.slope_deviation(holes, 0.3),
            "untouched": torch.equal(holes, before),
        }
    results["single"] = module.effective_slopes(rng.torch.normal(3, 3), 1 + rng.torch.uniform(2, 3))
    return results


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/propagation.py"])
def statistics_of_activations(tree, rng):
    module = tree.load("propagation")
    results = {}
    for widths, scale in [([3, 8, 6, 2], 1.0), ([4, 4, 4, 4, 4, 1], 3.0), ([2, 5, 1], 0.3), ([3, 7, 1], 1e-6)]:
        network = network_of(tree, rng, widths, scale)
        if scale < 1e-3:  # hardly any spread around a mean that is not small
            for layer in network.layers:
                layer.bias.data.fill_(0.4)
        x = rng.torch.normal(7, widths[0]).double()
        hidden, h = [], x
        for layer in network.layers[:-1]:
            h = torch.tanh(layer(h)).detach()
            hidden.append(h.clone())
        before = x.clone()
        results[str(widths)] = {
            "hidden": hidden,
            "default": module.activation_statistics(network, x),
            "own": module.activation_statistics(network, x, 0.3, 0.6),
            "equal": module.activation_statistics(network, x, 0.5, 0.5),
            "untouched": torch.equal(x, before),
        }
    return results


@case(seeds=1, covers=["src/propagation.py"])
def statistics_at_the_edges(tree, rng):
    module = tree.load("propagation")
    network = network_of(tree, rng, [2, 3, 3, 1]).float()
    with torch.no_grad():
        network.layers[0].weight.zero_()
        network.layers[0].bias.zero_()
    x = rng.torch.normal(4, 2)
    flat = module.activation_statistics(network, x)
    with torch.no_grad():
        for layer in network.layers:
            layer.weight.zero_()
            layer.bias.fill_(100.0)
    full = module.activation_statistics(network, x, 1.0, 1.0)

    def refused(dead, saturated):
        return raises(lambda: module.activation_statistics(network, x, dead, saturated))

    return {
        "flat": flat["kurtosis"][:1],
        "flat dead": [flat["dead"][0], module.activation_statistics(network, x, 0.0)["dead"][0]],
        "full": full,
        "above": module.activation_statistics(network, x, 1.5, 2.0),
        "refused": [refused(*v) for v in [(-0.1, 0.5), (0.6, 0.5), (NAN, 0.5), (0.1, NAN)]],
        "accepted": [refused(*v) for v in [(0.0, 0.0), (0.5, 0.5), (0.0, 1.5)]],
    }


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/propagation.py"])
def norms_of_gradients(tree, rng):
    module = tree.load("propagation")
    results = {}
    for widths, scale in [([3, 6, 5, 2], 1.5), ([4, 4, 4, 4, 4, 1], 1.5), ([2, 3], 1.5), ([5, 5, 2], 8.0)]:
        network = network_of(tree, rng, widths, scale)
        x = rng.torch.normal(5, widths[0]).double()
        upstream = rng.torch.normal(5, widths[-1]).double()
        before = x.clone()
        norms = module.gradient_norms(network, x, upstream)
        leaf = x.clone().requires_grad_(True)
        steps = [leaf]
        for layer in network.layers[:-1]:
            steps.append(torch.tanh(layer(steps[-1])))
        grads = torch.autograd.grad(network.layers[-1](steps[-1]), steps, upstream)
        results[str(widths)] = {
            "norms": norms,
            "autograd": torch.stack([g.norm(dim=1) for g in grads], dim=1),
            "clean": all(p.grad is None for p in network.parameters()),
            "recorded": norms.requires_grad,
            "untouched": torch.equal(x, before),
        }
    return results


class Formula(nn.Module):
    """A solution in closed form, with one parameter."""

    def __init__(self, function, value):
        super().__init__()
        self.function = function
        self.value = nn.Parameter(torch.tensor(value, dtype=torch.float64))

    def forward(self, points):
        return self.function(self.value, points[:, :1], points[:, 1:])


def wave(c, t, x):
    """The travelling front of the Burgers equation with viscosity 0.2."""
    return c - torch.tanh((x - c * t) / 0.4)


def ripple(c, t, x):
    """No solution at all."""
    return torch.sin(c * t) * x**3 + torch.exp(c * x) * t**2


@case(seeds=3, covers=["src/pinn.py"])
def residuals_of_formulas(tree, rng):
    residual = tree.load("pinn").burgers_residual
    points = rng.torch.normal(9, 2).double()
    front, other = Formula(wave, 0.7), Formula(ripple, 0.6)
    needy = points.clone().requires_grad_(True)
    before = points.clone()
    found = residual(other, needy, 0.3)
    found.square().sum().backward()
    return {
        "points": before,
        "front": residual(front, points, 0.2),
        "thick front": residual(front, points, 0.5),
        "ripple": found,
        "gradient": other.value.grad,
        "no gradient for points": needy.grad is None,
        "still plain": not points.requires_grad,
        "untouched": torch.equal(points, before),
    }


def problem_of(tree, rng, inside=8, known=5):
    """Random points of a Burgers problem."""
    points = rng.torch.uniform(inside, 2).double()
    return tree.load("pinn").Points(
        points, rng.torch.uniform(known, 2).double(), rng.torch.normal(known, 1).double()
    )


@case(seeds=3, rtol=1e-5, atol=1e-8, covers=["src/pinn.py"])
def losses_of_networks(tree, rng):
    module = tree.load("pinn")
    network = network_of(tree, rng, [2, 5, 4, 1])
    points = problem_of(tree, rng)
    loss = module.physics_loss(network, points, 0.05, 2.5)
    loss.backward()
    return {
        "loss": loss,
        "gradients": {name: p.grad for name, p in network.named_parameters() if p.grad is not None},
        "data": (network(points.known) - points.values).detach(),
        "residual": module.burgers_residual(network, points.inside, 0.05),
        "default": module.physics_loss(network, points, 0.05),
    }


class Exploding(nn.Module):
    """A network whose output is not finite from a certain call on."""

    def __init__(self, last):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.5, -0.3], dtype=torch.float64))
        self.left = last

    def forward(self, points):
        self.left -= 1
        scale = 1.0 if self.left >= 0 else NAN
        return scale * torch.tanh(points @ self.weight[:, None])


class Plateau(nn.Module):
    """A network whose loss is exactly the same wherever its parameter goes."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.4], dtype=torch.float64))

    def forward(self, points):
        return 1 + 1e-17 * torch.sin(1e10 * self.weight + points.sum(dim=1, keepdim=True))


@case(seeds=2, rtol=1e-4, atol=1e-7, covers=["src/pinn.py"])
def trainings(tree, rng):
    module = tree.load("pinn")
    points = problem_of(tree, rng)
    network = network_of(tree, rng, [2, 4, 1])
    start = parameters(network)
    results = {}
    for name, settings in {
        "plain": {"steps": 6, "rate": 0.01},
        "default rate": {"steps": 2},
        "none": {"steps": 0},
        "clipped": {"steps": 5, "rate": 0.02, "max_norm": 1e-7},
        "wild": {"steps": 12, "rate": 0.9},
    }.items():
        network.load_state_dict(start)
        losses = module.train(network, points, 0.05, **settings)
        results[name] = {
            "losses": losses,
            "recorded": losses.requires_grad,
            "parameters": parameters(network),
            "now": module.physics_loss(network, points, 0.05),
        }
    for calls in (0, 1, 5):
        exploding = Exploding(calls)
        losses = module.train(exploding, points, 0.05, 9, 0.01)
        results[f"exploding after {calls}"] = {
            "losses": losses,
            "parameters": exploding.weight,
        }
    plateau = Plateau()
    flat = points._replace(values=torch.zeros_like(points.values))
    losses = module.train(plateau, flat, 0.05, 3, 0.01)
    results["plateau"] = {"losses": losses, "parameters": plateau.weight}
    results["start"] = start
    return results


@case(seeds=1, covers=["src/pinn.py"])
def trainings_that_are_refused(tree, rng):
    train = tree.load("pinn").train
    points = problem_of(tree, rng, 2, 2)
    network = network_of(tree, rng, [2, 2, 1])
    return {
        "steps": [raises(lambda n=n: train(network, points, 0.1, n)) for n in (-1, -3, 0)],
        "max_norm": [
            raises(lambda v=v: train(network, points, 0.1, 1, 0.01, v))
            for v in (0.0, -1.0, NAN, 0.5, INF)
        ],
    }
