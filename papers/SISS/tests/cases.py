"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import copy
import math

import torch
from torch import nn

from rcb_env.cases import case, raises

STEPS = 16


def make_schedule(tree, steps=STEPS):
    """A short schedule that reaches much noise."""
    return tree.load("schedule").linear_schedule(steps, 0.02, 0.35)


def doubles(rng, *shape, std=1.0):
    """Normal values in double precision."""
    return rng.torch.normal(*shape, std=std).double()


def make_model(tree, rng, std=0.4):
    """A denoiser in double precision with random parameters."""
    model = tree.load("denoiser").TinyDenoiser(steps=STEPS).double()
    for parameter in model.parameters():
        parameter.data = doubles(rng, *parameter.shape, std=std)
    return model


class Watched(nn.Module):
    """Writes down what a model is called with."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.calls = []

    def forward(self, noisy, timesteps):
        self.calls.append([noisy.detach().clone(), timesteps.clone()])
        return self.model(noisy, timesteps)


class Counting(nn.Module):
    """A model with a buffer that changes."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, noisy, timesteps):
        self.calls += 1
        return self.model(noisy, timesteps)


# --- the mixture ----------------------------------------------------------------------------------


@case(seeds=3, covers=["src/mixture.py"])
def draws_from_the_mixture(tree, rng):
    module, schedule = tree.load("mixture"), make_schedule(tree)
    runs = []
    for shape in [(6, 3), (5, 2, 3, 3), (1, 1, 2, 2), (4, 2, 2)]:
        kept, forgotten, noise = (rng.torch.normal(*shape) for _ in range(3))
        timesteps = rng.torch.integers(0, STEPS, shape[0])
        uniforms = rng.torch.uniform(shape[0])
        uniforms[0] = 0.5
        before = kept.clone()
        made = {
            str(mixing): module.mixture_sample(
                schedule, kept, forgotten, timesteps, noise, uniforms, mixing
            )
            for mixing in (0.0, 0.3, 0.5, 0.8, 1.0)
        }
        runs.append(
            {
                "kept": kept,
                "forgotten": forgotten,
                "noise": noise,
                "uniforms": uniforms,
                "gammas": schedule.gammas[timesteps],
                "made": made,
                "untouched": torch.equal(kept, before),
            }
        )
    doubled = [x.double() for x in (kept, forgotten)]
    made = module.mixture_sample(schedule, *doubled, timesteps, noise.double(), uniforms, 0.5)
    return {"runs": runs, "double": made}


@case(seeds=3, rtol=1e-9, atol=1e-14, covers=["src/mixture.py"])
def ratios_of_random_images(tree, rng):
    module, schedule = tree.load("mixture"), make_schedule(tree)
    runs = []
    for shape in [(4, 3), (3, 2, 2, 2), (5, 2, 1)]:
        kept = doubles(rng, *shape)
        forgotten = kept + doubles(rng, *shape, std=0.5)
        timesteps = rng.torch.integers(0, STEPS, shape[0])
        noisy = schedule.gammas[timesteps].reshape(-1, *[1] * (len(shape) - 1)) * kept
        noisy = noisy + doubles(rng, *shape, std=0.5)
        arguments = (schedule, noisy, kept, forgotten, timesteps)
        made = {m: module.importance_ratios(*arguments, m) for m in (0.0, 0.2, 0.5, 0.9, 1.0, 1, 0)}
        runs.append(
            {
                "kept": kept,
                "forgotten": forgotten,
                "noisy": noisy,
                "gammas": schedule.gammas[timesteps],
                "made": {str(mixing): ratios for mixing, ratios in made.items()},
            }
        )
    return runs


@case(seeds=1, rtol=1e-5, covers=["src/mixture.py"])
def ratios_at_the_edges(tree, rng):
    module, schedule = tree.load("mixture"), make_schedule(tree)

    def ratios(noisy, kept, forgotten, mixing, timestep=3):
        images = (torch.full((2, 1, 4, 4), float(x)) for x in (noisy, kept, forgotten))
        timesteps = torch.full((2,), timestep)
        return module.importance_ratios(schedule, *images, timesteps, mixing)

    kept = torch.ones(2, 3, requires_grad=True)
    graph = module.importance_ratios(
        schedule, kept * 2, kept, torch.zeros(2, 3), torch.tensor([0, 1]), 0.5
    )
    return {
        "far from both": ratios(900.0, 1.0, -1.0, 0.25),
        "far from both, other side": ratios(-900.0, 1.0, -1.0, 0.25),
        "between": ratios(0.0, 1.0, -1.0, 0.25),
        "same": ratios(0.5, 2.0, 2.0, 0.3),
        "same at 0": ratios(0.5, 2.0, 2.0, 0.0),
        "graph": graph.requires_grad,
        "dtype": str(graph.dtype),
        "refused": [
            raises(lambda m=m: ratios(0.0, 1.0, 2.0, m))
            for m in (-1.0, -0.5, -1e-3, 1.001, 1.5, 2, math.nan, math.inf)
        ],
        "accepted": [raises(lambda m=m: ratios(0.0, 1.0, 2.0, m)) for m in (0, 0.0, 0.5, 1, 1.0)],
    }


# --- losses and gradients -------------------------------------------------------------------------


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/losses.py"])
def terms_of_random_images(tree, rng):
    module, schedule = tree.load("losses"), make_schedule(tree)
    model = Watched(make_model(tree, rng))
    runs = []
    for count, size in ((3, 3), (1, 2), (5, 2)):
        shape = (count, 2, size, size)
        kept, noise = doubles(rng, *shape), doubles(rng, *shape)
        forgotten = kept + doubles(rng, *shape, std=0.3)
        timesteps, uniforms = rng.torch.integers(0, STEPS, count), rng.torch.uniform(count)
        timesteps[0] = 0
        for mixing in (0.5, 0.2, 1.0):
            model.calls.clear()
            model.zero_grad()
            terms = module.siss_terms(
                model, schedule, kept, forgotten, timesteps, noise, uniforms, mixing
            )
            (terms.keep.sum() - 0.3 * terms.forget.sum()).backward()
            runs.append(
                {
                    **terms._asdict(),
                    "mixing": mixing,
                    "calls": list(model.calls),
                    "gradients": [p.grad for p in model.parameters()],
                    "predicted": model.model(*model.calls[0]),
                    "kept": kept,
                    "forgotten": forgotten,
                    "gammas": schedule.gammas[timesteps],
                }
            )
        model.calls.clear()
        model.zero_grad()
        both = doubles(rng, 2 * count, 2, size, size)
        terms = module.separate_terms(model, schedule, kept, forgotten, timesteps, both)
        (terms.keep.sum() - 0.3 * terms.forget.sum()).backward()
        runs.append(
            {
                **terms._asdict(),
                "both": both,
                "calls": list(model.calls),
                "gradients": [p.grad for p in model.parameters()],
                "predicted": model.model(*model.calls[0]),
            }
        )
    return runs


@case(seeds=1, rtol=1e-4, atol=1e-4, covers=["src/losses.py"])
def terms_at_the_edges(tree, rng):
    module, schedule = tree.load("losses"), make_schedule(tree)
    model = make_model(tree, rng).float()
    draw = rng.torch.normal
    times, numbers = torch.tensor([3, 9]), torch.tensor([0.2, 0.7])

    def terms(*shape):
        return module.siss_terms(
            model, schedule, draw(2, 2, 3, 3), draw(*shape), times, draw(2, 2, 3, 3), numbers, 0.5
        )

    def mixed(mixing):
        images = [draw(2, 2, 3, 3) for _ in range(3)]
        return raises(
            lambda: module.siss_terms(
                model, schedule, images[0], images[1], times, images[2], numbers, mixing
            )
        )

    apart = module.separate_terms(
        model, schedule, draw(2, 2, 3, 3), draw(2, 2, 3, 3), times, draw(4, 2, 3, 3)
    )
    leaves = [draw(2, 2, 3, 3).requires_grad_() for _ in range(3)]
    learnt = module.siss_terms(
        model, schedule, leaves[0], leaves[1], times, leaves[2], numbers, 0.5
    )
    weight = next(model.parameters())
    wanted = torch.autograd.grad(
        learnt.keep.sum() - learnt.forget.sum(), [weight, *leaves], allow_unused=True
    )
    kept = draw(2, 2, 3, 3)
    same = module.siss_terms(model, schedule, kept, kept, times, draw(2, 2, 3, 3), numbers, 0.4)
    return {
        "same": list(same),
        "gradient of a weight": wanted[0],
        "gradients of images": [x is None or not x.any() for x in wanted[1:]],
        "dtypes": [str(x.dtype) for x in [*terms(2, 2, 3, 3), *apart]],
        "refused": [
            raises(lambda s=s: terms(*s)) for s in ((1, 2, 3, 3), (2, 1, 3, 3), (2, 2, 3, 1), (3,))
        ],
        "mixing": [mixed(x) for x in (-0.1, 1.1, 0.0, 1.0)],
    }


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/losses.py"])
def weights_of_terms(tree, rng):
    module = tree.load("losses")
    runs = []
    for count, total, unlearned in ((4, 10, 3), (1, 2, 1), (3, 100, 1), (5, 7, 6)):
        terms = module.Terms(doubles(rng, count).square(), doubles(rng, count).square())
        runs.append(
            {
                "terms": list(terms),
                "sizes": [total, unlearned],
                "losses": module.weighted_losses(terms, total, unlearned),
                "plain": module.siss_loss(terms, total, unlearned),
                "strong": module.siss_loss(terms, total, unlearned, 2.5),
            }
        )
    terms = module.Terms(torch.ones(3), torch.ones(3))

    def outcome(total, unlearned):
        return raises(lambda: module.weighted_losses(terms, total, unlearned))

    return {
        "runs": runs,
        "refused": [outcome(*x) for x in ((5, 0), (5, -1), (5, 5), (5, 6), (0, 0), (1, 1), (-1, -2))],
        "accepted": [outcome(*x) for x in ((5, 1), (5, 4), (2, 1))],
    }


def quadratic_terms(tree, rng, parameters, scale=1.0):
    """Terms that depend on two of the parameters."""
    first, second = parameters[:2]
    bent = first.tanh()
    keep = (bent.sum() - doubles(rng, 4)).square() + second.square().sum()
    forget = scale * ((bent * doubles(rng, *first.shape)).sum() + doubles(rng, 4) * second.sum())
    return tree.load("losses").Terms(keep, forget)


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/gradients.py"])
def gradients_that_are_balanced(tree, rng):
    gradients, losses = tree.load("gradients"), tree.load("losses")
    runs = []
    for fraction, scale, total, unlearned in (
        (0.1, 1.0, 10, 3),
        (1.0, 1.0, 5, 4),
        (2.0, 100.0, 20, 1),
        (0.5, 1e-3, 8, 2),
        (0, 1.0, 4, 1),
        (0.3, 0.0, 4, 1),
        (0.3, 1e-12, 4, 1),
    ):
        parameters = [doubles(rng, *s).requires_grad_() for s in ((2, 3), (4,), (3,))]
        frozen = doubles(rng, 2)
        frozen.grad = torch.full((2,), 7.0, dtype=torch.float64)
        terms = quadratic_terms(tree, rng, parameters, scale)
        keep, forget = losses.weighted_losses(terms, total, unlearned)
        parts = [
            torch.autograd.grad(x, parameters[:2], retain_graph=True) for x in (keep, forget)
        ]
        parameters[0].grad = doubles(rng, 2, 3)
        everything = [parameters[0], frozen, *parameters[1:]]
        found = gradients.set_balanced_gradients(
            terms, total, unlearned, iter(everything), fraction
        )
        runs.append(
            {
                "superfactor": found,
                "fraction": float(fraction),
                "down": list(parts[0]),
                "up": list(parts[1]),
                "gradients": [p.grad for p in everything],
                "graphs": [p.grad.requires_grad for p in everything],
                "kind": type(found).__name__,
            }
        )
    return runs


@case(seeds=1, covers=["src/gradients.py"])
def gradients_that_are_refused(tree, rng):
    gradients = tree.load("gradients")

    def outcome(fraction, total=4, unlearned=1):
        parameters = [doubles(rng, 2, 3).requires_grad_(), doubles(rng, 4).requires_grad_()]
        terms = quadratic_terms(tree, rng, parameters)
        return raises(
            lambda: gradients.set_balanced_gradients(terms, total, unlearned, parameters, fraction)
        )

    def exploded(keep, forget, fraction=0.5):
        parameters = [doubles(rng, 2, 3).requires_grad_(), doubles(rng, 4).requires_grad_()]
        parameters[0].grad = torch.ones(2, 3).double()
        terms = quadratic_terms(tree, rng, parameters)
        terms = type(terms)(terms.keep * keep, terms.forget * forget)
        found = raises(
            lambda: gradients.set_balanced_gradients(terms, 4, 1, parameters, fraction)
        )
        return [found, parameters[0].grad.eq(1).all(), parameters[1].grad is None]

    parameters = [doubles(rng, 2, 3).requires_grad_(), doubles(rng, 4).requires_grad_()]
    terms = quadratic_terms(tree, rng, parameters)
    frozen = [doubles(rng, 2, 3)]
    return {
        "exploded": [
            exploded(*x)
            for x in (
                (math.inf, 1.0),
                (1.0, math.inf),
                (math.nan, 1.0),
                (1.0, math.nan),
                (math.inf, math.inf),
                (1.0, math.inf, 0.0),
            )
        ],
        "untrained": [
            raises(lambda p=p: gradients.set_balanced_gradients(terms, 4, 1, p, 0.5))
            for p in ([], frozen)
        ],
        "refused": [outcome(x) for x in (-1.0, -0.5, -1e-6, math.inf, math.nan)],
        "accepted": [outcome(x) for x in (0, 0.0, 1e-6, 0.5, 3)],
        "sizes": [outcome(0.1, 4, 0), outcome(0.1, 4, 4)],
    }


# --- batches and unlearning -----------------------------------------------------------------------


@case(seeds=3, covers=["src/batches.py"])
def batches_to_unlearn(tree, rng):
    batch = tree.load("batches").unlearning_batch
    data = torch.arange(10.0).reshape(10, 1, 1) + rng.torch.uniform(1, 2, 2, low=0.1, high=0.9)
    forget = rng.torch.permutation(10)[:3]
    generator = rng.torch.generator()
    return {
        "forget": forget,
        "batches": [batch(data, forget, size, generator) for size in (4, 1, 40)],
        "single": batch(data[:2], torch.tensor([1]), 5, generator),
        "most": batch(data[:4], torch.tensor([3, 0, 2]), 6, generator),
        "next": torch.rand(2, generator=generator),
    }


@case(seeds=1, covers=["src/batches.py"])
def batches_that_are_refused(tree, rng):
    batch = tree.load("batches").unlearning_batch
    data = rng.torch.normal(4, 2)

    def outcome(*forget):
        numbers = torch.tensor(forget, dtype=torch.long)
        return raises(lambda: batch(data, numbers, 3, rng.torch.generator()))

    return {
        "count": [outcome(), outcome(0, 1, 2, 3), outcome(0, 1, 2, 3, 3)],
        "twice": [outcome(1, 1), outcome(0, 2, 0)],
        "range": [outcome(-1), outcome(4), outcome(0, -1), outcome(1, 4), outcome(-2, 7)],
        "accepted": [outcome(0), outcome(3), outcome(0, 1, 2), outcome(3, 0), outcome(2, 1)],
    }


@case(seeds=1, rtol=1e-5, atol=1e-8, covers=["src/unlearning.py"])
def models_that_unlearn(tree, rng):
    module, schedule = tree.load("unlearning"), make_schedule(tree)
    start = make_model(tree, rng)
    data, forget = doubles(rng, 6, 2, 2, 2, std=0.3), torch.tensor([4, 1])
    runs = {}
    for name, options in {
        "default": {},
        "one": {"updates": 1, "fraction": 0.5},
        "mixture": {"mixing": 0.9, "decay": 0.5, "batch": 3},
        "no mixture": {"mixing": None, "decay": 0.5},
        "around the kept": {"mixing": 0.0, "fraction": 0.0},
        "decayed": {"weight_decay": 2.0, "max_norm": 0.01, "decay": 0.0},
        "none": {"updates": 0},
        "frozen average": {"decay": 1.0, "updates": 1},
    }.items():
        settings = module.Settings(**{"updates": 2, "batch": 4, "rate": 0.02, **options})
        model, generator = copy.deepcopy(start).eval(), rng.torch.generator()
        made = module.unlearn(model, data, forget, schedule, settings, generator)
        runs[name] = {
            "model": [p.detach() for p in model.parameters()],
            "average": [p.detach() for p in made.average.parameters()],
            "superfactors": made.superfactors,
            "norms": made.norms,
            "training": model.training,
            "apart": made.average is not model,
            "next": torch.rand(2, generator=generator),
        }
    counting = Counting(copy.deepcopy(start))
    settings = module.Settings(updates=2, batch=2, decay=0.5)
    counted = module.unlearn(counting, data, forget, schedule, settings, rng.torch.generator())
    single = copy.deepcopy(start).float()
    settings = module.Settings(updates=1, batch=2, mixing=None)
    made = module.unlearn(single, data.float(), forget, schedule, settings, rng.torch.generator())
    return {
        "runs": runs,
        "start": [p.detach() for p in start.parameters()],
        "buffers": [counting.calls, counted.average.calls],
        "kinds": [type(made.norms[0]).__name__, type(made.superfactors[0]).__name__],
        "single": str(next(made.average.parameters()).dtype),
    }


# --- evaluation -----------------------------------------------------------------------------------


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/evaluation.py"])
def images_denoised_again(tree, rng):
    module, schedule = tree.load("evaluation"), make_schedule(tree)
    model = Watched(make_model(tree, rng))
    images, noise = doubles(rng, 3, 2, 3, 3), doubles(rng, 3, 2, 3, 3)
    before = images.clone()
    runs = {}
    for start, stride in ((9, 3), (8, 3), (5, 2), (0, 1), (0, 4), (STEPS - 1, 1), (7, 20), (2, 2)):
        model.calls.clear()
        made = module.reconstruct(model, schedule, images, noise, start, stride)
        runs[f"{start} by {stride}"] = {
            "made": made,
            "timesteps": [times for _, times in model.calls],
            "noisy": [noisy for noisy, _ in model.calls],
            "graph": made.requires_grad,
        }

    def knows(noisy, timesteps):
        gamma, sigma = schedule.at(timesteps, noisy)
        return (noisy - gamma * images) / sigma

    embedding = doubles(rng, 18, 4)
    remembered = module.memory(
        model, schedule, images, torch.stack([noise, -noise]), 6, 3, lambda x: x.flatten(1) @ embedding
    )

    def outcome(start, stride):
        return raises(lambda: module.reconstruct(model, schedule, images, noise, start, stride))

    single = module.reconstruct(make_model(tree, rng).float(), schedule, images.float(), noise.float(), 6, 2)
    return {
        "images": images,
        "runs": runs,
        "perfect": [
            module.reconstruct(knows, schedule, images, noise, *way) for way in ((12, 1), (9, 4))
        ],
        "remembered": remembered,
        "untouched": torch.equal(images, before),
        "single": str(single.dtype),
        "refused": [outcome(*x) for x in ((-1, 1), (STEPS, 1), (-3, 2), (3, 0), (3, -1), (99, 5))],
        "accepted": [outcome(*x) for x in ((0, 1), (STEPS - 1, 1), (3, 1), (3, 50))],
    }


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/evaluation.py"])
def bounds_of_likelihoods(tree, rng):
    module = tree.load("evaluation")
    runs = []
    for count, size, steps in ((3, 3, STEPS), (1, 2, 5), (2, 4, 2)):
        schedule = make_schedule(tree, steps)
        model = Watched(make_model(tree, rng))
        images, noise = doubles(rng, count, 2, size, size), doubles(rng, steps, count, 2, size, size)
        made = module.bits_per_dimension(model, schedule, images, noise)
        runs.append(
            {
                "made": made,
                "timesteps": [times for _, times in model.calls],
                "predicted": torch.stack([model.model(*call) for call in model.calls]),
                "images": images,
                "noise": noise,
                "gammas": schedule.gammas,
                "graph": made.requires_grad,
            }
        )
    single = module.bits_per_dimension(
        model.model.float(), schedule, images.float(), noise.float()
    )
    return {"runs": runs, "single": str(single.dtype)}


@case(seeds=3, covers=["src/evaluation.py"])
def samples_near_forgotten_images(tree, rng):
    share = tree.load("evaluation").forgotten_share
    runs = []
    for shape, samples, count in (((2, 3, 3), 25, 8), ((4,), 9, 5), ((1, 2, 2), 1, 3)):
        data, made = doubles(rng, count, *shape), doubles(rng, samples, *shape)
        forget = rng.torch.permutation(count)[: count // 2 + 1]
        runs.append(
            {"data": data, "samples": made, "forget": forget, "share": share(made, data, forget)}
        )
    data = torch.tensor([[0.0, 0.0], [2.0, 0.0], [2.0, 0.0], [0.0, 4.0]])
    samples = torch.tensor([[1.0, 0.0], [2.0, 0.5], [0.0, 3.0], [0.0, 2.0]])
    return {
        "runs": runs,
        "ties": [share(samples, data, torch.tensor(forget)) for forget in ([0], [1], [2], [3])],
        "nothing": share(samples, data, torch.tensor([], dtype=torch.long)),
        "everything": share(samples, data, torch.arange(4)),
        "kind": type(share(samples, data, torch.tensor([0]))).__name__,
    }
