"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import math

import torch
from torch import nn

from rcb_env.cases import case, raises

NAN = math.nan


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


def normal(rng, *shape, **kwargs):
    return rng.torch.normal(*shape, **kwargs).double()


def mixture(tree, rng, batch=2, components=3, channels=2, height=2, width=3):
    """A random mixture in double precision."""
    return tree.load("mixture").GaussianMixture(
        normal(rng, batch, components, channels, height, width),
        normal(rng, batch, components, 1, height, width).log_softmax(dim=1),
        normal(rng, batch, 1, 1, 1, 1, mean=-0.7, std=0.3),
    )


def parts(gm):
    """A mixture as outputs."""
    return {"means": gm.means, "logweights": gm.logweights, "logstd": gm.logstd}


def sharp(gm):
    """The same mixture with a small deviation."""
    return gm._replace(logstd=gm.logstd.detach() - 9)


def pulled(rng, made, given):
    """Gradients, for the parts of a mixture, of a random combination of the parts of another."""
    pull = sum((part * normal(rng, *part.shape)).sum() for part in made)
    return list(torch.autograd.grad(pull, list(given)))


def dtypes(value):
    """Only the dtypes of a mixture or a tensor: its values in single precision are not compared."""
    tensors = value if isinstance(value, tuple) else (value,)
    return [str(tensor.dtype) for tensor in tensors]


def single(gm):
    """A mixture in single precision."""
    return type(gm)(*(part.float() for part in gm))


def two_times(rng, batch):
    """Random times 0 < s < t < 1."""
    t = rng.torch.uniform(batch, low=0.3, high=0.95).double()
    return t, t * rng.torch.uniform(batch, low=0.2, high=0.9).double()


# --- schedule -------------------------------------------------------------------------------------


@case(seeds=2, covers=["src/schedule.py"])
def coefficients_of_random_times(tree, rng):
    coefficients = tree.load("schedule").transition_coefficients
    t, s = two_times(rng, 6)
    return {
        "t": t,
        "s": s,
        "c": list(coefficients(t, s)),
        "single": dtypes(coefficients(t.float(), s.float())),
        "from noise": list(coefficients(torch.ones_like(s), s)),
        "to data": list(coefficients(t, torch.zeros_like(t))),
        "standing": list(coefficients(t, t)),
        "late": list(coefficients(1e-3 * t, 1e-3 * s)),
        "nearly noise": list(coefficients(tensor(1.0, 0.99), tensor(0.99, 0.98))),
    }


@case(seeds=1, covers=["src/schedule.py"])
def coefficients_of_bad_times(tree, rng):
    coefficients = tree.load("schedule").transition_coefficients

    def tried(t, s):
        return raises(lambda: coefficients(tensor(0.5, t), tensor(0.25, s)))

    return {
        "refused": [
            tried(*pair)
            for pair in [
                (0.5, 0.6),
                (0.5, 0.51),
                (1.1, 0.5),
                (0.5, -0.1),
                (0.0, 0.0),
                (1.0, 1.0),
                (NAN, 0.5),
                (0.5, NAN),
                (-0.5, -0.6),
                (2.0, 1.5),
            ]
        ],
        "accepted": [tried(*pair) for pair in [(1.0, 0.0), (0.5, 0.5), (0.01, 0.0), (1.0, 0.99)]],
    }


# --- mixtures -------------------------------------------------------------------------------------


@case(seeds=2, covers=["src/mixture.py"])
def log_densities(tree, rng):
    module = tree.load("mixture")
    out = {}
    for name, shape in [("some", (2, 3, 2, 2, 3)), ("one", (3, 1, 1, 1, 2)), ("many", (1, 7, 4, 2, 1))]:
        gm = mixture(tree, rng, *shape)
        x = normal(rng, shape[0], *shape[2:])
        inputs = [part.requires_grad_() for part in (x, *gm)]
        density = module.log_density(gm, x)
        gradients = torch.autograd.grad(density.sum(), inputs)
        narrow = sharp(gm)
        near = narrow.means[:, -1].detach() + 1e-4 * normal(rng, shape[0], *shape[2:])
        out[name] = {
            **parts(gm),
            "x": x,
            "density": density,
            "gradients": list(gradients),
            "far": module.log_density(gm, 1e3 + x),
            "sharp": module.log_density(narrow, near),
            "single": dtypes(module.log_density(single(gm), x.float())),
        }
    return out


@case(seeds=2, covers=["src/mixture.py"])
def draws_from_mixtures(tree, rng):
    module = tree.load("mixture")
    out = {}
    for name, shape in [("some", (2, 3, 2, 2, 3)), ("one", (3, 1, 1, 1, 2)), ("many", (1, 7, 4, 2, 3))]:
        gm = mixture(tree, rng, *shape)
        uniforms = rng.torch.uniform(shape[0], *shape[3:]).double()
        noise = normal(rng, shape[0], *shape[2:])
        out[name] = {
            **parts(gm),
            "uniforms": uniforms,
            "noise": noise,
            "draw": module.sample(gm, uniforms, noise),
            "centres": module.sample(gm, uniforms, torch.zeros_like(noise)),
            "sharp": 1e4 * (module.sample(sharp(gm), uniforms, noise) - module.sample(sharp(gm), uniforms, 0 * noise)),
            "single": dtypes(module.sample(single(gm), uniforms.float(), noise.float())),
        }
    return out


@case(seeds=1, covers=["src/mixture.py"])
def draws_at_the_edges(tree, rng):
    module = tree.load("mixture")
    weights = tensor(0.0, 0.25, 0.25, 0.0, 0.5, 0.0).reshape(1, 6, 1, 1, 1)
    uniforms = tensor(0.0, 0.1, 0.25, 0.4, 0.5, 0.75, 0.999, 1.0).reshape(1, 1, 8)
    means = torch.arange(6).double().reshape(1, 6, 1, 1, 1)
    gm = module.GaussianMixture(
        means.expand(1, 6, 1, 1, 8),
        weights.log().expand(1, 6, 1, 1, 8),
        torch.zeros(1, 1, 1, 1, 1, dtype=torch.float64),
    )
    return module.sample(gm, uniforms, torch.zeros(1, 1, 1, 8, dtype=torch.float64))


@case(seeds=2, covers=["src/mixture.py"])
def products_with_gaussians(tree, rng):
    module = tree.load("mixture")
    out = {}
    for name, shape in [("some", (2, 3, 2, 2, 3)), ("one", (3, 1, 1, 1, 2)), ("many", (1, 7, 4, 2, 3))]:
        gm = mixture(tree, rng, *shape)
        linear = normal(rng, shape[0], *shape[2:], std=2.0)
        precision = rng.torch.uniform(shape[0], low=0.5, high=4.0).double()
        negative = -rng.torch.uniform(shape[0], low=0.1, high=0.8).double() / gm.variance.flatten()
        x = normal(rng, 2, *linear.shape)
        parted = module.GaussianMixture(*(part.clone().requires_grad_() for part in gm))
        product = module.times_gaussian(gm, precision, linear)
        fine = gm._replace(logstd=gm.logstd - 13)
        nearly = (1e-5 - 1) / gm.variance.flatten()
        out[name] = {
            "gm": parts(gm),
            "linear": linear,
            "precision": precision,
            "x": x,
            "product": parts(product),
            "ratio": [module.log_density(product, y) - module.log_density(gm, y) for y in x],
            "quotient": parts(module.times_gaussian(gm, negative, linear)),
            "nothing": parts(module.times_gaussian(gm, 0 * precision, 0 * linear)),
            "gradients": pulled(rng, module.times_gaussian(parted, precision, linear), parted),
            "fine": parts(module.times_gaussian(fine, precision, linear)),
            "nearly": parts(module.times_gaussian(gm, nearly, linear)),
            "shifted": parts(module.times_gaussian(gm, 0 * precision, linear)),
            "single": dtypes(module.times_gaussian(single(gm), precision.float(), linear.float())),
        }
    return out


@case(seeds=1, covers=["src/mixture.py"])
def products_that_do_not_exist(tree, rng):
    module = tree.load("mixture")
    gm = mixture(tree, rng)
    gm = gm._replace(logstd=torch.zeros_like(gm.logstd))
    linear = normal(rng, 2, 2, 2, 3)
    values = [(1.0, -1.0), (-1.5, 1.0), (-3.0, -3.0), (NAN, 1.0), (-0.99, 0.5), (0.0, -0.5), (2.0, 1.0)]
    return [raises(lambda v=v: module.times_gaussian(gm, tensor(*v), linear)) for v in values]


# --- conversions ----------------------------------------------------------------------------------


@case(seeds=2, covers=["src/conversion.py"])
def reverse_transitions(tree, rng):
    reverse = tree.load("conversion").reverse_transition
    gm = mixture(tree, rng)
    x = normal(rng, 2, 2, 2, 3)
    t, s = two_times(rng, 2)
    given = type(gm)(*(part.clone().requires_grad_() for part in gm))
    return {
        "gm": parts(gm),
        "x": x,
        "t": t,
        "s": s,
        "found": parts(reverse(gm, x, t, s)),
        "gradients": pulled(rng, reverse(given, x, t, s), given),
        "late": parts(reverse(sharp(gm), x, 1e-4 * t, 1e-4 * s)),
        "from noise": parts(reverse(gm, x, torch.ones_like(t), s)),
        "to data": parts(reverse(gm, x, t, 0 * s)),
        "standing": parts(reverse(gm, x, t, t)),
        "single": dtypes(reverse(single(gm), x.float(), t.float(), s.float())),
        "bad": raises(lambda: reverse(gm, x, s, t)),
    }


@case(seeds=2, covers=["src/conversion.py"])
def denoising_at_other_points(tree, rng):
    module = tree.load("conversion")
    data = mixture(tree, rng)
    x_t, x_s = normal(rng, 2, 2, 2, 2, 3)
    t, s = two_times(rng, 2)
    there = module.denoising_at(data, x_t, t, x_s, s)
    wide = data._replace(logstd=data.logstd + 3)
    return {
        "data": parts(data),
        "there": parts(there),
        "back": parts(module.denoising_at(there, x_s, s, x_t, t)),
        "standing": parts(module.denoising_at(data, x_t, t, x_t, t)),
        "late": parts(module.denoising_at(data, x_t, 1e-2 * t, x_s, 1e-2 * s)),
        "same time": parts(module.denoising_at(data, x_t, t, x_s, t)),
        "from noise": parts(module.denoising_at(data, x_t, torch.ones_like(t), x_s, s)),
        "impossible": raises(lambda: module.denoising_at(wide, x_s, s / 4, x_t, t)),
    }


@case(seeds=2, rtol=1e-4, covers=["src/conversion.py"])
def exact_mixtures_follow_the_path(tree, rng):
    module, model = tree.load("conversion"), exact_model(tree, rng)
    x_t, x_s = normal(rng, 2, 2, 2, 2, 3)
    t, s = two_times(rng, 2)
    data = module.velocity_to_data(model(x_t, t), x_t, t)
    return {
        "moved": parts(module.denoising_at(data, x_t, t, x_s, s)),
        "true": parts(module.velocity_to_data(model(x_s, s), x_s, s)),
    }


def exact_model(tree, rng):
    return tree.load("toy").exact_model(normal(rng, 4, 2, std=1.5), 0.4)


# --- guidance -------------------------------------------------------------------------------------


def faint(gm):
    """The same mixture, with small means and a small deviation."""
    return sharp(gm)._replace(means=1e-3 * gm.means)


@case(seeds=2, rtol=1e-6, atol=1e-9, covers=["src/guidance.py"])
def guided_mixtures(tree, rng):
    guide = tree.load("guidance").probabilistic_guidance
    out = {}
    for name, shape in [("some", (2, 3, 2, 2, 3)), ("one", (3, 1, 3, 2, 2)), ("many", (1, 6, 4, 1, 3))]:
        gm, other = mixture(tree, rng, *shape), mixture(tree, rng, *shape)
        out[name] = {
            "gm": parts(gm),
            "other": parts(other),
            "zero": parts(guide(gm, other, 0.0)),
            "weak": parts(guide(gm, other, 0.2)),
            "strong": parts(guide(gm, other, 0.9)),
            "orthogonal": parts(guide(gm, other, 0.6, orthogonality=1.0)),
            "partly": parts(guide(gm, other, 0.6, 0.35)),
            "in vain": parts(guide(gm, gm, 0.5)),
            "near": parts(guide(gm, gm._replace(means=gm.means + 1e-3 * other.means), 0.5)),
            "nearer": parts(guide(gm, gm._replace(means=gm.means + 1e-7), 0.5)),
            "sharp": parts(guide(faint(gm), faint(other), 0.4)),
            "single": dtypes(guide(single(gm), single(other), 0.5)),
        }
    return out


@case(seeds=1, covers=["src/guidance.py"])
def guidance_at_the_edges(tree, rng):
    guide = tree.load("guidance").probabilistic_guidance
    gm, other = mixture(tree, rng), mixture(tree, rng)
    still = gm._replace(means=0 * gm.means)
    small = gm._replace(means=1e-2 * gm.means)
    tiny = gm._replace(means=1e-5 * gm.means)
    return {
        "still": parts(guide(still, other, 0.5, 0.7)),
        "small": parts(guide(small, other, 0.5, 0.7)),
        "tiny": parts(guide(tiny, other, 0.5, 0.7)),
        "refused": [raises(lambda w=w: guide(gm, other, w)) for w in (-0.1, 1.0, 1.5, NAN)]
        + [raises(lambda o=o: guide(gm, other, 0.5, o)) for o in (-0.1, 1.1, 2.0, NAN)],
        "accepted": [raises(lambda w=w: guide(gm, other, w)) for w in (0, 0.0, 0.99)]
        + [raises(lambda o=o: guide(gm, other, 0.5, o)) for o in (0, 1)],
    }


# --- loss -----------------------------------------------------------------------------------------


@case(seeds=3, covers=["src/losses.py"])
def transition_losses(tree, rng):
    module, density = tree.load("losses"), tree.load("mixture").log_density
    out = {}
    for name, shape in [("some", (2, 3, 2, 2, 3)), ("gray", (3, 4, 1, 1, 2)), ("deep", (1, 5, 4, 2, 2))]:
        gm = mixture(tree, rng, *shape)
        gm.means.requires_grad_()
        gm.logstd.requires_grad_()
        x_t, x_s = normal(rng, 2, shape[0], *shape[2:])
        t, s = two_times(rng, shape[0])
        loss = module.transition_loss(gm, x_t, x_s, t, s)
        gradients = torch.autograd.grad(loss.sum(), [gm.means, gm.logstd])
        velocity = (x_t - x_s) / t.reshape(-1, 1, 1, 1)
        out[name] = {
            "loss": loss,
            "gradients": list(gradients),
            "from noise": module.transition_loss(gm, x_t, x_s, torch.ones_like(t), s),
            "to data": module.transition_loss(gm, x_t, x_s, t, 0 * s),
            "far": module.transition_loss(gm, x_t, 100 + x_s, t, s),
            "velocity": -density(gm, velocity).mean(dim=(1, 2)) / shape[2],
            "bad": raises(lambda: module.transition_loss(gm, x_t, x_s, s, t)),
        }
    return out


# --- solvers --------------------------------------------------------------------------------------


def wavy_model(tree, rng, channels=2, components=3):
    """A model that depends on point and time, and counts its calls."""
    make = tree.load("mixture").GaussianMixture
    slopes = normal(rng, 1, components, channels, 1, 1)
    logits = normal(rng, 1, components, 1, 1, 1)
    calls = []

    def model(x, t):
        calls.append(t.clone())
        level = t.reshape(-1, 1, 1, 1, 1)
        means = torch.sin(x.unsqueeze(1) * slopes + 2 * level) + slopes
        weights = (logits * (1 + x.mean(dim=1).unsqueeze(1).unsqueeze(1))).log_softmax(dim=1)
        return make(means, weights, -0.5 - 0.3 * level)

    return model, calls


@case(seeds=2, covers=["src/samplers.py"])
def ode_samples_of_a_wavy_model(tree, rng):
    module = tree.load("samplers")
    model, calls = wavy_model(tree, rng)
    x = normal(rng, 3, 2, 2, 4)
    kept = x.clone()
    out = {}
    for name, times, substeps in [
        ("one", [1.0, 0.0], 1),
        ("fine", [1.0, 0.0], 5),
        ("three", [1.0, 0.7, 0.3, 0.0], 3),
        ("middle", [0.9, 0.6, 0.2], 4),
        ("late", [0.08, 0.03, 0.0], 2),
        ("grid", module.time_grid(4, shift=2.0), 2),
    ]:
        calls.clear()
        made = module.gm_ode_sample(model, x, times, substeps)
        out[name] = {"x": made, "calls": list(calls), "gradient": made.requires_grad}
    out["start"], out["untouched"] = kept, torch.equal(x, kept)
    velocity = model(x, tensor(1.0, 1.0, 1.0))
    out["euler"] = x - (velocity.logweights.exp() * velocity.means).sum(dim=1)
    return out


@case(seeds=2, rtol=1e-4, covers=["src/samplers.py"])
def ode_samples_of_an_exact_model(tree, rng):
    module, model = tree.load("samplers"), exact_model(tree, rng)
    x = normal(rng, 2, 2, 2, 3)
    return {
        "one step": module.gm_ode_sample(model, x, [1.0, 0.4], 12),
        "four steps": module.gm_ode_sample(model, x, [1.0, 0.85, 0.7, 0.55, 0.4], 3),
        "twelve steps": module.gm_ode_sample(model, x, [1 - 0.05 * i for i in range(13)], 1),
    }


@case(seeds=1, covers=["src/samplers.py"])
def ode_settings_that_are_refused(tree, rng):
    module = tree.load("samplers")
    model, calls = wavy_model(tree, rng)
    x = normal(rng, 1, 2, 1, 2)

    def tried(times, substeps=2):
        return raises(lambda: module.gm_ode_sample(model, x, times, substeps))

    refused = [
        tried(times)
        for times in [[], [0.5], [0.5, 0.5], [1.0, 0.5, 0.6], [1.0, 0.5, 0.5], [0.1, 0.9], [1.1, 0.5], [0.5, -0.1], [1.0, 0.5, -0.1], [NAN, 0.5]]
    ]
    refused += [tried([1.0, 0.5], 0), tried([1.0, 0.5], -1)]
    asked = len(calls)
    return {"refused": refused, "asked": asked, "accepted": [tried([1, 0]), tried([1.0, 0.5, 0.0], 1)]}


@case(seeds=1, covers=["src/samplers.py", "src/mixture.py", "src/conversion.py", "src/schedule.py"])
def sde_samples(tree, rng):
    module = tree.load("samplers")
    model, _ = wavy_model(tree, rng)
    x = normal(rng, 2, 2, 2, 3)
    uniforms, noise = rng.torch.uniform(3, 2, 2, 3).double(), normal(rng, 3, 2, 2, 2, 3)
    return module.gm_sde_sample(model, x, [1.0, 0.7, 0.3, 0.0], uniforms, noise)


# --- training -------------------------------------------------------------------------------------


class Recorder(nn.Module):
    """A network that keeps what it was asked."""

    def __init__(self, tree, rng, dtype):
        super().__init__()
        self.net = tree.load("network").VelocityNet(channels=2, components=3, classes=3, width=5)
        for parameter in self.net.parameters():
            parameter.data = 0.4 * rng.torch.normal(*parameter.shape)
        self.to(dtype)
        self.asked = []

    def forward(self, x, t, labels):
        self.asked.append([x.detach().clone(), t.clone(), labels.clone()])
        return self.net(x, t, labels)


def trained(tree, rng, steps=2, lr=0.2, dtype=torch.float64, **settings):
    model, average = Recorder(tree, rng, dtype), Recorder(tree, rng, dtype)
    before = [parameter.detach().clone() for parameter in average.parameters()]
    views = [parameter.detach() for parameter in average.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    x0 = rng.torch.normal(5, 2, 2, 3).to(dtype)
    labels = rng.torch.integers(0, 3, 5)
    kept, generator = labels.clone(), rng.torch.generator()
    train_step = tree.load("training").train_step
    first = [parameter.detach().clone() for parameter in model.parameters()]
    losses = [
        train_step(model, average, optimizer, x0, labels, 3, generator, **settings)
        for _ in range(steps)
    ]
    return {
        "losses": losses,
        "kind": type(losses[0]).__name__,
        "asked": model.asked,
        "first": first,
        "parameters": list(model.parameters()),
        "average before": before,
        "average": list(average.parameters()),
        "views": views,
        "untouched": torch.equal(labels, kept),
        "leaf": all(p.grad is None and p.requires_grad for p in average.parameters()),
        "x0": x0,
        "labels": kept,
        "next": torch.rand(1, generator=generator),
    }


def label_numbers(rng):
    """The uniform numbers that the first training step compares with the drop probability."""
    generator = rng.torch.generator()
    for shape in [(5,), (5, 2, 2, 3), (5, 2, 2, 3)]:
        torch.randn(shape, generator=generator, dtype=torch.float64)
    return torch.rand(5, generator=generator, dtype=torch.float64)


@case(seeds=2, rtol=1e-4, covers=["src/training.py"])
def training_steps(tree, rng):
    return {
        "edge": trained(tree, rng, steps=1, drop=label_numbers(rng)[2].item()),
        "default": trained(tree, rng),
        "whole": trained(tree, rng, steps=1, ratio=1.0, drop=0.5, decay=0.5),
        "short": trained(tree, rng, steps=1, ratio=0.2, drop=0.0, max_norm=1e6, lr=1e-3),
        "clipped": trained(tree, rng, steps=1, max_norm=0.01, lr=1.0, drop=1.0, decay=0.0),
    }


@case(seeds=1, rtol=1e-3, atol=1e-4, covers=["src/training.py"])
def training_in_single_precision(tree, rng):
    return trained(tree, rng, steps=1, dtype=torch.float32, drop=0.3)


@case(seeds=1, covers=["src/training.py"])
def training_with_a_bad_ratio(tree, rng):
    def tried(ratio):
        model, generator = Recorder(tree, rng, torch.float32), rng.torch.generator()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x0, labels = rng.torch.normal(2, 2, 2, 2), rng.torch.integers(0, 3, 2)
        error = raises(
            lambda: tree.load("training").train_step(
                model, model, optimizer, x0, labels, 3, generator, ratio=ratio
            )
        )
        return [error, torch.rand(1, generator=generator)]

    return [tried(ratio) for ratio in (0.0, -0.5, 1.01, 1.5, NAN, 1, 0.01)]
