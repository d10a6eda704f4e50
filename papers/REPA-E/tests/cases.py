"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import math

import torch

from rcb_env.cases import case, raises

NAN = math.nan


def normal(rng, *shape, **kwargs):
    return rng.torch.normal(*shape, **kwargs).double()


def uniform(rng, *shape, **kwargs):
    return rng.torch.uniform(*shape, **kwargs).double()


# --- normalization --------------------------------------------------------------------------------


@case(seeds=2, covers=["src/normalization.py"])
def normalized_latents(tree, rng):
    module = tree.load("normalization")
    out = {}
    for name, channels, shape, settings in [
        ("default", 4, (3, 4, 2, 5), {}),
        ("slow", 2, (1, 2, 1, 2), {"momentum": 0.01, "epsilon": 0.3}),
        ("fast", 3, (2, 3, 2, 2), {"momentum": 1.0}),
        ("average", 3, (2, 3, 1, 2), {"momentum": None}),
    ]:
        norm = module.LatentNorm(channels, **settings).double()
        views = {key: value for key, value in norm.named_buffers()}
        z = (1.5 + normal(rng, *shape, std=2.0)).requires_grad_()
        direction = normal(rng, *shape)
        kept = z.detach().clone()
        first = norm(z)
        (gradient,) = torch.autograd.grad((first * direction).sum(), z)
        middle = {"mean": norm.mean.clone(), "variance": norm.variance.clone()}
        second = norm(2 * z.detach() - 1)
        back = norm.denormalize(first)
        norm.eval()
        (frozen_gradient,) = torch.autograd.grad((norm(z) * direction).sum(), z)
        out[name] = {
            "z": kept,
            "first": first,
            "gradient": gradient,
            "middle": middle,
            "second": second,
            "back": back,
            "frozen": norm(z),
            "frozen gradient": frozen_gradient,
            "there and back": norm.denormalize(norm(z)),
            "state": dict(norm.state_dict()),
            "views": {key: value.clone() for key, value in views.items()},
            "flows": norm.mean.requires_grad or norm.variance.requires_grad,
            "untouched": torch.equal(z, kept),
        }
    return out


@case(seeds=1, covers=["src/normalization.py"])
def normalization_of_single_values(tree, rng):
    norm = tree.load("normalization").LatentNorm(3).double()
    z = normal(rng, 1, 3, 1, 1)
    refused = raises(lambda: norm(z))
    state = {key: value.clone() for key, value in norm.state_dict().items()}
    return {
        "refused": refused,
        "state": state,
        "accepted": [raises(lambda: norm(normal(rng, *shape))) for shape in [(2, 3, 1, 1), (1, 3, 1, 2)]],
        "shapes": [raises(lambda: norm(normal(rng, *shape))) for shape in [(2, 4, 2, 2), (2, 1, 2, 2), (3, 2, 2), (2, 3, 2), (2, 3, 2, 2, 1)]],
        "frozen shape": raises(lambda: norm.eval()(normal(rng, 2, 1, 2, 2))),
        "frozen": norm.eval()(z),
    }


# --- alignment ------------------------------------------------------------------------------------


@case(seeds=2, covers=["src/alignment.py"])
def alignment_losses(tree, rng):
    loss = tree.load("alignment").alignment_loss
    shapes = [(3, 4, 5), (3, 4, 2), (3, 7, 6)]
    ours = [normal(rng, *shape).requires_grad_() for shape in shapes]
    theirs = [normal(rng, *shape).requires_grad_() for shape in shapes]
    made = loss(ours, theirs)
    return {
        "ours": ours,
        "theirs": theirs,
        "loss": made,
        "gradients": list(torch.autograd.grad(made.square().sum(), ours, retain_graph=True)),
        "flows": [x is not None for x in torch.autograd.grad(made.sum(), theirs, allow_unused=True)],
        "faint": loss([1e-4 * x for x in ours], [1e-4 * x for x in theirs]),
        "one": loss(ours[:1], theirs[:1]),
        "same": loss(ours, [3 * x for x in ours]),
        "opposite": loss(ours, [-x for x in ours]),
    }


@case(seeds=1, covers=["src/alignment.py"])
def alignment_that_is_refused(tree, rng):
    loss = tree.load("alignment").alignment_loss
    x, y, z = normal(rng, 2, 3, 4), normal(rng, 2, 1, 4), normal(rng, 2, 3, 1)
    pairs = [([], []), ([x], []), ([], [x]), ([x, x], [x]), ([x], [x, x]), ([x], [y]), ([x], [z]), ([x, y], [x, x]), ([x], [x])]
    return [raises(lambda p=p: loss(*p)) for p in pairs]


# --- regularization -------------------------------------------------------------------------------


@case(seeds=2, covers=["src/regularization.py"])
def divergences(tree, rng):
    module = tree.load("regularization")
    mean, logvar = normal(rng, 3, 2, 2, 4).requires_grad_(), normal(rng, 3, 2, 2, 4).requires_grad_()
    kl = module.kl_divergence(module.Posterior(mean, logvar))
    gradients = torch.autograd.grad(kl.square().sum(), [mean, logvar])
    zero = torch.zeros(2, 1, 2, 2)
    extreme = torch.tensor([-90.0, -31.0, 0.0, 9.0, 21.0, 30.0]).double().reshape(6, 1, 1, 1).requires_grad_()
    far = module.kl_divergence(module.Posterior(torch.zeros_like(extreme), extreme))
    return {
        "mean": mean,
        "logvar": logvar,
        "kl": kl,
        "gradients": list(gradients),
        "extreme": far,
        "extreme gradient": torch.autograd.grad(far.sum(), extreme)[0],
        "prior": module.kl_divergence(module.Posterior(zero, zero)),
    }


def maps_of(rng, layers):
    """A frozen network: two or three linear layers on pixels, with pooling between them."""
    mixes = [normal(rng, width, 3) for width in layers]

    def features(images):
        out = []
        for mix in mixes:
            out.append(torch.einsum("oc,bchw->bohw", mix, images).tanh())
            images = images[:, :, :, : images.shape[3] - 1]
        return out

    return features


@case(seeds=2, covers=["src/regularization.py"])
def perceptual_distances(tree, rng):
    distance = tree.load("regularization").perceptual_distance
    x, y = normal(rng, 2, 4, 3, 3, 5)
    y.requires_grad_()
    features = maps_of(rng, (4, 7, 2))
    made = distance(features, x, y)
    (gradient,) = torch.autograd.grad(made.square().sum(), y)
    return {
        "distance": made,
        "gradient": gradient,
        "coarse": distance(features, x, y, 0.5),
        "same": distance(features, x, x),
        "plain": distance(lambda image: [image], x, y),
        "x": x,
        "y": y,
        "scaled": distance(lambda image: [image], x, 3 * x),
        "zero": distance(lambda image: [image], 0 * x, x),
        "tiny": distance(lambda image: [image], 1e-10 * x, x),
    }


# --- diffusion ------------------------------------------------------------------------------------


@case(seeds=2, covers=["src/diffusion.py"])
def interpolants(tree, rng):
    interpolate = tree.load("diffusion").interpolate
    out = {}
    for name, shape in [("some", (4, 2, 3, 5)), ("square", (3, 3, 3, 3)), ("one", (1, 2, 1, 2))]:
        x, noise, t = normal(rng, *shape), normal(rng, *shape), uniform(rng, shape[0])
        x.requires_grad_()
        noisy, velocity = interpolate(x, noise, t)
        pulls = [(made * normal(rng, *shape)).sum() for made in (noisy, velocity)]
        gradients = [torch.autograd.grad(pull, x)[0] for pull in pulls]
        ends = [interpolate(x, noise, 0 * t)[0], interpolate(x, noise, 0 * t + 1)[0]]
        out[name] = {"x": x, "noise": noise, "t": t, "noisy": noisy, "velocity": velocity, "ends": ends, "gradients": gradients}
    return out


# --- training -------------------------------------------------------------------------------------


def trained(tree, rng, steps=1, lr=0.05, frozen=False, **settings):
    training, transformer = tree.load("training"), tree.load("transformer")
    vae = tree.load("vae").VAE(width=4)
    norm = tree.load("normalization").LatentNorm(2)
    model, average = (transformer.DiffusionTransformer(width=4, features=5) for _ in range(2))
    networks = [vae, norm, model, average]
    for network in networks:
        for parameter in network.parameters():
            parameter.data = 0.5 * rng.torch.normal(*parameter.shape)
        network.double()
    if frozen:
        norm.eval()
        norm.mean += normal(rng, 2)
    mix = normal(rng, 5, 3)
    asked = {"model": [], "norm": 0, "features": 0, "perception": [], "order": []}

    def features(images):
        asked["features"] += 1
        pooled = images.unfold(2, 2, 2).unfold(3, 2, 2).mean(dim=(4, 5))
        return [(pooled.flatten(2).mT @ mix.T).sin()]

    def count(*_):
        asked["norm"] += 1

    norm.register_forward_hook(count)
    model.register_forward_pre_hook(lambda _, given: asked["model"].append([x.detach().clone() for x in given]))
    maps = maps_of(rng, (4, 3))

    def perception(images):
        asked["perception"].append(images.detach().clone())
        return maps(images)

    parts = training.Parts(vae, norm, model, average, features, perception)
    optimizers = [torch.optim.SGD(network.parameters(), lr=lr, momentum=0.5) for network in (vae, model)]
    for name, optimizer in zip(["vae", "model"], optimizers):
        optimizer.register_step_post_hook(lambda *_, name=name: asked["order"].append(name))
    views = [p.detach() for p in average.parameters()]
    images, labels = normal(rng, 3, 3, 4, 4), rng.torch.integers(0, 4, 3)
    before = {name: [p.detach().clone() for p in net.parameters()] for name, net in [("vae", vae), ("model", model), ("average", average)]}
    losses = []
    for _ in range(steps):
        randomness = training.Randomness(normal(rng, 3, 2, 2, 2), normal(rng, 3, 2, 2, 2), uniform(rng, 3))
        losses.append(training.train_step(parts, *optimizers, images, labels, randomness, training.Weights(**settings)))
    return {
        "losses": [[loss[key] for key in sorted(loss)] for loss in losses],
        "names": sorted(losses[0]),
        "kinds": sorted({type(value).__name__ for value in losses[0].values()}),
        "before": before,
        "vae": list(vae.parameters()),
        "model": list(model.parameters()),
        "average": list(average.parameters()),
        "gradients": [[p.grad for p in net.parameters()] for net in (vae, model)],
        "norm": dict(norm.state_dict()),
        "asked": asked,
        "views": views,
        "leaf": all(p.grad is None for p in average.parameters()),
    }


@case(seeds=2, rtol=1e-4, covers=["src/training.py"])
def training_steps(tree, rng):
    return {
        "default": trained(tree, rng, steps=2),
        "free": trained(tree, rng, steps=2, lr=1e-3, max_norm=1e6, kl=0.3, perceptual=0.7, decay=0.5),
        "clipped": trained(tree, rng, lr=1.0, max_norm=0.01, decay=0.0),
        "frozen": trained(tree, rng, frozen=True, align_vae=0.2, align_model=2.0, max_norm=1e6, lr=1e-3),
    }


# --- sampler --------------------------------------------------------------------------------------


def wavy_model(rng):
    """A model that depends on everything, and keeps what it was asked."""
    shift, calls = normal(rng, 4, 2), []

    def model(x, t, labels):
        calls.append({"x": x, "t": t, "labels": labels})
        velocity = torch.sin(x * (1 + t.reshape(-1, 1, 1, 1))) + shift[labels][:, :, None, None]
        return velocity, [x]

    return model, calls


@case(seeds=2, covers=["src/sampler.py"])
def scores(tree, rng):
    score = tree.load("sampler").score
    x0, noise = normal(rng, 2, 3, 2, 2, 2)
    return {
        "noise": noise,
        "found": [score((1 - t) * x0 + t * noise, noise - x0, t) for t in (0.1, 0.5, 1.0)],
        "random": score(x0, noise, 0.3),
    }


@case(seeds=2, covers=["src/sampler.py"])
def guided_velocities(tree, rng):
    guided = tree.load("sampler").guided_velocity
    model, calls = wavy_model(rng)
    x, labels = normal(rng, 3, 2, 2, 2), rng.torch.integers(0, 3, 3)
    out = {"x": x, "labels": labels}
    for name, t, scale, interval in [
        ("inside", 0.5, 2.5, (0.2, 0.8)),
        ("weak", 0.5, 0.4, (0.2, 0.8)),
        ("none", 0.5, 0.0, (0.0, 1.0)),
        ("scale one", 0.5, 1.0, (0.2, 0.8)),
        ("early", 0.9, 2.5, (0.2, 0.8)),
        ("late", 0.1, 2.5, (0.2, 0.8)),
        ("low end", 0.2, 1.5, (0.2, 0.8)),
        ("high end", 0.8, 1.5, (0.2, 0.8)),
    ]:
        calls.clear()
        out[name] = {"velocity": guided(model, x, t, labels, 3, scale, interval), "calls": list(calls)}
    return out


@case(seeds=2, covers=["src/sampler.py"])
def sampled_latents(tree, rng):
    sample = tree.load("sampler").sample_latents
    model, calls = wavy_model(rng)
    norm = tree.load("normalization").LatentNorm(2).double()
    norm.mean += normal(rng, 2)
    norm.variance += uniform(rng, 2)
    x, labels, noise = normal(rng, 3, 2, 2, 2), rng.torch.integers(0, 3, 3), normal(rng, 3, 3, 2, 2, 2)
    plain = tree.load("normalization").LatentNorm(2, epsilon=0.0).double()
    start, kept = x.clone(), noise.clone()
    x.requires_grad_()
    out = {}
    for name, times, settings in [
        ("plain", [1.0, 0.7, 0.3, 0.05], {}),
        ("guided", [0.95, 0.5, 0.25], {"scale": 2.0}),
        ("interval", [1.0, 0.6, 0.4, 0.1], {"scale": 3.0, "interval": (0.3, 0.6)}),
        ("one step", [1.0], {}),
        ("two steps", [1, 0.5], {"scale": 1.5}),
    ]:
        calls.clear()
        made = sample(model, norm, x, labels, 3, times, noise[: len(times) - 1], **settings)
        out[name] = {"z": made, "times": [call["t"] for call in calls], "gradient": made.requires_grad}
    velocity = model(start, torch.ones(3).double(), labels)[0]
    out["jump"] = sample(model, plain, x, labels, 3, [1.0], noise[:0])
    out["wanted"] = start - velocity - start
    out["untouched"] = torch.equal(x, start) and torch.equal(noise, kept)
    out["statistics"] = dict(norm.state_dict())
    return out


@case(seeds=1, covers=["src/sampler.py"])
def sampling_that_is_refused(tree, rng):
    sample = tree.load("sampler").sample_latents
    model, calls = wavy_model(rng)
    norm = tree.load("normalization").LatentNorm(2).double()
    x, labels = normal(rng, 2, 2, 2, 2), rng.torch.integers(0, 3, 2)

    def tried(times, kicks):
        return raises(lambda: sample(model, norm, x, labels, 3, times, normal(rng, kicks, 2, 2, 2, 2)))

    bad = [([], 0), ([1.1], 0), ([0.0], 0), ([1.0, 0.0], 1), ([0.5, -0.1], 1), ([0.5, 0.5], 1), ([0.4, 0.6], 1), ([NAN], 0)]
    bad += [([1.0, 0.5, 0.5], 2), ([1.0, 0.3, 0.4], 2), ([1.0, 0.5], 0), ([1.0, 0.5], 2), ([1.0], 1), ([1.5, 0.5], 1), ([1.0, 0.5, 0.0], 2)]
    refused = [tried(*pair) for pair in bad]
    asked = len(calls)
    return {"refused": refused, "asked": asked, "accepted": [tried([1], 0), tried([1.0, 0.01], 1), tried([0.5], 0)]}
