"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import copy
import math

import torch
from torch import nn

from rcb_env.cases import case, raises

STEPS = 20


def make_schedule(tree, steps=STEPS):
    """A short schedule that reaches much noise."""
    return tree.load("schedule").scaled_linear_schedule(steps, 0.01, 0.3)


def doubles(rng, *shape, std=1.0):
    """Normal values in double precision."""
    return rng.torch.normal(*shape, std=std).double()


def make_model(tree, rng, std=0.4, **options):
    """A denoiser in double precision with random parameters."""
    model = tree.load("denoiser").TinyDenoiser(steps=STEPS, **options).double()
    for parameter in model.parameters():
        parameter.data = doubles(rng, *parameter.shape, std=std)
    return model


def shifted(model, rng, std=0.05):
    """A copy of a model with slightly different parameters."""
    other = copy.deepcopy(model)
    for parameter in other.parameters():
        parameter.data += doubles(rng, *parameter.shape, std=std)
    return other


class Watched(nn.Module):
    """Writes down what a model is called with, and in which mode."""

    def __init__(self, model, log):
        super().__init__()
        self.model = model
        self.log = log

    def __deepcopy__(self, memo):
        return Watched(copy.deepcopy(self.model, memo), self.log)

    def forward(self, noisy, timesteps, prompts):
        self.log.append(
            {
                "noisy": noisy.detach().clone(),
                "timesteps": timesteps.clone(),
                "prompts": prompts.clone(),
                "training": self.training,
                "graph": torch.is_grad_enabled(),
            }
        )
        return self.model(noisy, timesteps, prompts)


# --- schedule and weights -------------------------------------------------------------------------


@case(seeds=3, covers=["src/schedule.py"])
def images_made_noisy(tree, rng):
    schedule = make_schedule(tree)
    runs = []
    for shape in [(5,), (3, 4), (4, 2, 3, 3), (1, 1, 2, 2), (2, 3, 1, 2, 2)]:
        clean, noise = rng.torch.normal(*shape), rng.torch.normal(*shape)
        timesteps = rng.torch.integers(0, STEPS, shape[0])
        before = clean.clone(), noise.clone()
        runs.append(
            {
                "clean": before[0],
                "noise": before[1],
                "alphas": schedule.alphas[timesteps],
                "noisy": schedule.noised(clean, noise, timesteps),
                "double": schedule.noised(clean.double(), noise.double(), timesteps),
                "untouched": torch.equal(clean, before[0]) and torch.equal(noise, before[1]),
            }
        )
    return runs


@case(seeds=2, covers=["src/weighting.py"])
def weights_of_timesteps(tree, rng):
    weights = tree.load("weighting").timestep_weights
    found = {}
    for steps in (5, STEPS, 60):
        schedule = make_schedule(tree, steps)
        if steps == 60:  # from hardly any noise to hardly anything else
            schedule = tree.load("schedule").scaled_linear_schedule(steps, 1e-5, 0.5)
        timesteps = rng.torch.integers(0, steps, 7)
        every = torch.arange(steps)
        found[str(steps)] = {
            "timesteps": timesteps,
            "snr": schedule.snr(every),
            "default": weights(schedule, timesteps),
            "constant": weights(schedule, every, "constant"),
            "likelihood": weights(schedule, timesteps, "likelihood"),
            "likelihood of all": weights(schedule, every, "likelihood"),
            "min-snr": weights(schedule, every, "min-snr"),
            "min-snr 1": weights(schedule, every, "min-snr", 1.0),
            "min-snr 20": weights(schedule, timesteps, "min-snr", gamma=20.0),
            "none": [
                weights(schedule, every[:0], kind) for kind in ("constant", "likelihood", "min-snr")
            ],
        }
    return found


@case(seeds=1, covers=["src/weighting.py"])
def weights_that_are_refused(tree, rng):
    weights = tree.load("weighting").timestep_weights
    schedule = make_schedule(tree)

    def outcome(timesteps, kind="constant"):
        return raises(lambda: weights(schedule, torch.tensor(timesteps), kind))

    kinds = ("constant", "likelihood", "min-snr")
    return {
        "early": [outcome([3, -1, 2], kind) for kind in kinds],
        "late": [outcome([3, STEPS, 2], kind) for kind in kinds],
        "both": [outcome([-1]), outcome([STEPS]), outcome([STEPS + 5, -7]), outcome([-STEPS])],
        "edges": [outcome([0, STEPS - 1], kind) for kind in kinds],
        "alone": [outcome([0]), outcome([STEPS - 1]), outcome([1, 1])],
        "kinds": [outcome([1], kind) for kind in ("", "snr", "Constant", "none")],
    }


# --- losses ---------------------------------------------------------------------------------------


@case(seeds=3, covers=["src/losses.py"])
def losses_of_random_errors(tree, rng):
    loss = tree.load("losses").diffusion_dpo_loss
    runs = []
    for pairs in (1, 2, 5):
        policy = (doubles(rng, 2 * pairs).square() + 1).requires_grad_()
        reference = (doubles(rng, 2 * pairs).square() + 1).requires_grad_()
        weights = rng.torch.uniform(pairs, low=0.2, high=2.0).double()
        for beta, steps in ((0.05, 20), (0.3, 4), (1, 1)):
            made = loss(policy, reference, weights, beta, steps)
            (gradient,) = torch.autograd.grad(made.loss, policy, retain_graph=True)
            single = loss(policy.float(), reference.float(), weights, beta, steps)
            runs.append(
                {
                    "policy": policy,
                    "reference": reference,
                    "weights": weights,
                    "strength": beta * steps,
                    **made._asdict(),
                    "gradient": gradient,
                    "graphs": [x.requires_grad for x in made],
                    "dtypes": [str(x.dtype) for x in single],
                    "shapes": [list(x.shape) for x in single],
                }
            )
        made.loss.backward()
        runs[-1]["reference has a gradient"] = reference.grad is not None
    return runs


@case(seeds=1, covers=["src/losses.py"])
def losses_of_special_errors(tree, rng):
    loss = tree.load("losses").diffusion_dpo_loss

    def made(policy, reference, weights, beta=1.0, steps=1):
        tensors = (torch.tensor(x, dtype=torch.float64) for x in (policy, reference, weights))
        return loss(*tensors, beta, steps)._asdict()

    ones = [1.0, 1.0]
    return {
        "same": made([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], ones),
        "half": made([0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], ones),
        "quarter": made([0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0], ones),
        "three quarters": made([0.5, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0], ones),
        "very good": made([0.0, 9.0], [9.0, 0.0], [1.0], 1.0, 1000),
        "very bad": made([9.0, 0.0], [0.0, 9.0], [1.0], 1.0, 1000),
        "one bad": made([9.0, 0.0, 0.0, 0.0], [0.0, 9.0, 9.0, 9.0], ones, 1000.0, 1),
        "a hair": made([1.0, 1.0 + 1e-12, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], ones),
        "weightless": made([9.0, 0.0], [0.0, 9.0], [0.0]),
    }


@case(seeds=1, covers=["src/losses.py"])
def losses_that_are_refused(tree, rng):
    loss = tree.load("losses").diffusion_dpo_loss

    def outcome(policy=(4,), reference=(4,), weights=(2,), beta=1.0):
        return raises(
            lambda: loss(torch.ones(policy), torch.ones(reference), torch.ones(weights), beta, 3)
        )

    return {
        "beta": [outcome(beta=b) for b in (0.0, -1.0, -0.5, math.nan, 1e-9, 0.5, 1, 2.0, math.inf)],
        "nothing": outcome((0,), (0,), (0,)),
        "nothing but errors": outcome((2,), (2,), (0,)),
        "policy": [outcome(s) for s in ((3,), (5,), (2,), (1,), (2, 2), (4, 1), (0,))],
        "reference": [outcome(reference=s) for s in ((3,), (1,), (2,), (2, 2), (4, 1), ())],
        "both": [outcome(s, s) for s in ((3,), (2,), (6,), (8,), (2, 2), (0,), (4, 1))],
        "accepted": [outcome(), outcome((2,), (2,), (1,)), outcome((6,), (6,), (3,))],
    }


@case(seeds=3, rtol=1e-6, atol=1e-8, covers=["src/losses.py"])
def log_ratios_of_denoising_steps(tree, rng):
    module, schedule = tree.load("losses"), make_schedule(tree)
    runs = []
    for shape in [(5, 2), (4, 2, 3, 3), (1, 1, 2, 2), (3, 4)]:
        if shape == (3, 4):
            schedule = tree.load("schedule").scaled_linear_schedule(STEPS, 1e-5, 0.02)
        clean, noise = doubles(rng, *shape), doubles(rng, *shape)
        policy, reference = doubles(rng, *shape), doubles(rng, *shape)
        timesteps = rng.torch.integers(1, STEPS, shape[0])
        noisy = schedule.noised(clean, noise, timesteps)
        earlier = schedule.posterior(noisy, clean, timesteps)[0]
        policy.requires_grad_()

        def ratios(earlier, policy, reference):
            return module.transition_log_ratios(
                schedule, earlier, noisy, policy, reference, timesteps
            )

        expected = ratios(earlier, policy, reference)
        snr, snr_before = schedule.snr(timesteps), schedule.snr(timesteps - 1)
        runs.append(
            {
                "expected": expected,
                "gradient": torch.autograd.grad(expected.sum(), policy)[0],
                "elsewhere": ratios(doubles(rng, *shape), policy, reference),
                "swapped": ratios(earlier, reference, policy),
                "same": ratios(doubles(rng, *shape), policy, policy),
                "errors": [
                    module.squared_norms(predicted - noise) for predicted in (policy, reference)
                ],
                "likelihood": 0.5 * (snr_before - snr) / snr,
            }
        )
    return runs


@case(seeds=1, rtol=1e-2, atol=1e-2, covers=["src/losses.py"])
def log_ratios_in_single_precision_and_at_the_edges(tree, rng):
    module, schedule = tree.load("losses"), make_schedule(tree)

    def ratios(timesteps):
        count = len(timesteps)
        images = [rng.torch.normal(count, 2, 2) for _ in range(4)]
        return module.transition_log_ratios(schedule, *images, torch.tensor(timesteps))

    return {
        "single": ratios([5, 9, STEPS - 1]),
        "refused": [raises(lambda t=t: ratios(t)) for t in ([0], [3, 0, 2], [-1, 5], [0, 0])],
        "accepted": [raises(lambda t=t: ratios(t)) for t in ([1], [1, STEPS - 1], [2, 1, 1])],
    }


@case(seeds=3, covers=["src/losses.py"])
def losses_of_chains(tree, rng):
    losses = tree.load("losses").chain_losses
    runs = []
    for shape in [(3, 4, 2, 5), (1, 1, 2, 1), (1, 3, 2, 4), (5, 1, 2, 3), (2, 3, 2, 2)]:
        ratios = doubles(rng, *shape).requires_grad_()
        for beta in (0.1, 0.7):
            whole, single = losses(ratios, beta)
            runs.append(
                {
                    "ratios": ratios,
                    "beta": beta,
                    "whole": whole,
                    "single": single,
                    "gradients": [torch.autograd.grad(x, ratios)[0] for x in (whole, single)],
                }
            )
    large = torch.zeros(1, 2, 2, 1, dtype=torch.float64)
    large[0, :, 0, 0] = torch.tensor([1e4, -1e4])
    return {
        "runs": runs,
        "large": losses(large, 1.0),
        "good": losses(large[:, :1], 1.0),
        "bad": losses(large[:, 1:], 1.0),
        "equal": losses(torch.ones(2, 3, 2, 4), 5.0),
    }


# --- preferences ----------------------------------------------------------------------------------


@case(seeds=3, covers=["src/preferences.py"])
def batches_of_comparisons(tree, rng):
    module = tree.load("preferences")
    labels = [0.5, 1, 0, 1.0, 0.0, 0.5, *rng.torch.integers(0, 2, 4).tolist()]
    comparisons = [
        module.Comparison(
            int(rng.torch.integers(0, 9, 1)), rng.torch.normal(2, 3, 3), rng.torch.normal(2, 3, 3), x
        )
        for x in labels
    ]
    double = [module.Comparison(4, doubles(rng, 1, 2, 2), doubles(rng, 1, 2, 2), x) for x in (0, 1)]
    return {
        "labels": [float(x) for x in labels],
        "first": torch.stack([x.first for x in comparisons]),
        "second": torch.stack([x.second for x in comparisons]),
        "all": module.collate(comparisons)._asdict(),
        "backwards": module.collate(comparisons[::-1])._asdict(),
        "one": module.collate(comparisons[1:2])._asdict(),
        "other": module.collate(comparisons[2:3])._asdict(),
        "after ties": module.collate([comparisons[0], comparisons[5], comparisons[4]])._asdict(),
        "double": module.collate(tuple(double))._asdict(),
    }


@case(seeds=1, covers=["src/preferences.py"])
def comparisons_that_are_refused(tree, rng):
    module = tree.load("preferences")
    square, wide = torch.zeros(1, 2, 2), torch.zeros(1, 2, 3)

    def outcome(*labels, second=square):
        good = module.Comparison(1, square, square, 1)
        odd = [module.Comparison(2, square, second, label) for label in labels]
        return raises(lambda: module.collate([good, *odd, good]))

    return {
        "labels": [outcome(x) for x in (-1, 2, 0.4, 0.6, -0.5, 1.5, 3, math.nan)],
        "shapes": [outcome(x, second=wide) for x in (0, 0.5, 1)],
        "accepted": [outcome(x) for x in (0, 1, 0.5, 0.0, 1.0)],
        "empty": [
            raises(lambda: module.collate([])),
            raises(lambda: module.collate([module.Comparison(1, square, square, 0.5)] * 2)),
        ],
    }


# --- training -------------------------------------------------------------------------------------


def make_pairs(tree, rng, count=3, size=4):
    """A batch of random pairs in double precision."""
    return tree.load("preferences").Pairs(
        rng.torch.integers(1, 5, count),
        doubles(rng, count, 2, size, size),
        doubles(rng, count, 2, size, size),
    )


@case(seeds=2, rtol=1e-6, atol=1e-9, covers=["src/training.py"])
def losses_of_batches(tree, rng):
    training, schedule = tree.load("training"), make_schedule(tree)
    reference = make_model(tree, rng)
    policy = shifted(reference, rng)
    generator = rng.torch.generator()
    runs = []
    for count, size, options in (
        (3, 4, {"beta": 0.02, "prompt_dropout": 0.5}),
        (1, 3, {"beta": 0.1, "prompt_dropout": 0.0, "weighting": "min-snr"}),
        (4, 2, {"beta": 0.02, "prompt_dropout": 1.0, "weighting": "likelihood"}),
        (6, 3, {"beta": 0.05}),
    ):
        log, calm = [], []
        pairs = make_pairs(tree, rng, count, size)
        policy.zero_grad()
        made = training.preference_loss(
            Watched(policy, log),
            Watched(reference, calm),
            schedule,
            pairs,
            training.Settings(**options),
            generator,
        )
        made.loss.backward()
        runs.append(
            {
                "pairs": pairs._asdict(),
                **made._asdict(),
                "gradients": {name: p.grad for name, p in policy.named_parameters()},
                "spared": all(p.grad is None for p in reference.parameters()),
                "alphas": schedule.alphas[log[0]["timesteps"]],
                "policy": [[x["noisy"], x["timesteps"], x["prompts"]] for x in log],
                "reference": [[x["noisy"], x["timesteps"], x["prompts"]] for x in calm],
            }
        )
    return {"runs": runs, "next": torch.rand(3, generator=generator)}


@case(seeds=2, covers=["src/training.py"])
def single_precision_stays(tree, rng):
    training, schedule = tree.load("training"), make_schedule(tree)
    reference = make_model(tree, rng)
    policy = shifted(reference, rng).float()
    pairs = type(make_pairs(tree, rng))(
        rng.torch.integers(1, 5, 3), rng.torch.normal(3, 2, 3, 3), rng.torch.normal(3, 2, 3, 3)
    )
    log = []
    made = training.preference_loss(
        Watched(policy, log),
        reference.float(),
        schedule,
        pairs,
        training.Settings(beta=0.02),
        rng.torch.generator(),
    )
    return {"loss": made.loss, "noisy": log[0]["noisy"], "rewards": made.rewards.dtype.is_complex}


@case(seeds=1, rtol=1e-5, atol=1e-8, covers=["src/training.py"])
def models_after_fine_tuning(tree, rng):
    training, schedule = tree.load("training"), make_schedule(tree)
    start = make_model(tree, rng, width=3)
    batches = [make_pairs(tree, rng, count, 3) for count in (2, 3, 1)]
    runs = {}
    for name, options in {
        "plain": {"warmup": 1},
        "slow": {"warmup": 4},
        "long warm-up": {"warmup": 100, "beta": 0.4, "reference_beta": 4.0},
        "pairs of batches": {"accumulate": 2, "warmup": 2},
        "all at once": {"accumulate": 9, "warmup": 1, "weighting": "min-snr"},
        "decayed": {"weight_decay": 0.5, "warmup": 1},
        "half the rate": {"beta": 0.1, "warmup": 1},
    }.items():
        settings = training.Settings(
            **{"beta": 0.05, "reference_beta": 0.05, "learning_rate": 0.02, **options}
        )
        log = []
        policy = Watched(copy.deepcopy(start), log).eval()
        generator = rng.torch.generator()
        history = training.fine_tune(policy, schedule, batches, settings, generator)
        runs[name] = {
            "history": history,
            "parameters": dict(policy.model.named_parameters()),
            "training": policy.training,
            "modes": sorted([x["training"], x["graph"]] for x in log),
            "calls": len(log),
            "next": torch.rand(2, generator=generator),
        }
    untouched = copy.deepcopy(start)
    empty = training.fine_tune(untouched, schedule, [], training.Settings(), rng.torch.generator())
    return {
        "runs": runs,
        "start": dict(start.named_parameters()),
        "empty": empty,
        "plain float": type(runs["plain"]["history"][0]).__name__,
        "untouched": dict(untouched.named_parameters()),
    }


# --- sampling and rewards -------------------------------------------------------------------------


@case(seeds=2, rtol=1e-6, atol=1e-9, covers=["src/sampling.py"])
def images_that_are_sampled(tree, rng):
    module, schedule = tree.load("sampling"), make_schedule(tree)
    model = make_model(tree, rng)
    noisy, prompts = doubles(rng, 3, 2, 4, 4), rng.torch.integers(0, 5, 3)
    before = noisy.clone()
    steps = module.sampling_timesteps(STEPS, 5)
    found = {}
    for name, (timesteps, options) in {
        "default": (steps, {}),
        "one step": ([7], {"guidance": 2.0}),
        "two steps": ([19, 0], {"guidance": 1.0}),
        "no prompt": (steps, {"guidance": 0.0}),
        "does not end at 0": ([15, 8, 3], {"guidance": 3.0}),
        "random": (steps, {"eta": 1.0, "guidance": 2.0}),
        "half random": ([18, 11, 2], {"eta": 0.5}),
        "every step": (list(range(6))[::-1], {"eta": 0.3, "guidance": 1.5}),
    }.items():
        log, generator = [], rng.torch.generator()
        images = module.denoise(
            Watched(model, log), schedule, noisy, prompts, timesteps, generator=generator, **options
        )
        found[name] = {
            "images": images,
            "calls": [[x["timesteps"], x["prompts"], x["noisy"]] for x in log],
            "graph": images.requires_grad,
            "next": torch.rand(1, generator=generator),
        }
    small = module.denoise(
        make_model(tree, rng).float(),
        schedule,
        rng.torch.normal(2, 2, 3, 3, std=0.1),
        torch.tensor([1, 2]),
        [9, 4],
        1.2,
        0.1,
        rng.torch.generator(),
    )
    edited = module.edit(model, schedule, noisy, prompts, 0.6, 5, doubles(rng, 3, 2, 4, 4))
    return {
        "found": found,
        "small": str(small.dtype),
        "edited": edited,
        "untouched": torch.equal(noisy, before),
    }


@case(seeds=2, rtol=1e-6, atol=1e-9, covers=["src/sampling.py"])
def images_of_a_perfect_model(tree, rng):
    """Where the noise is known, every way down leads to the clean image."""
    module, schedule = tree.load("sampling"), make_schedule(tree)
    clean, noise = doubles(rng, 2, 1, 3, 3), doubles(rng, 2, 1, 3, 3)

    def knows(noisy, timesteps, prompts):
        alpha = schedule.alphas[timesteps][:, None, None, None]
        sigma = schedule.sigmas[timesteps][:, None, None, None]
        return (noisy - alpha * clean.repeat(2, 1, 1, 1)) / sigma

    prompts = torch.tensor([1, 2])
    start = schedule.noised(clean, noise, torch.tensor([17, 17]))
    return {
        "clean": clean,
        "found": [
            module.denoise(knows, schedule, start, prompts, times, 5.0, eta, rng.torch.generator())
            for times in ([17], [17, 4], [17, 12, 6, 1])
            for eta in (0.0, 0.5, 1.0)
        ],
    }


@case(seeds=2, rtol=1e-6, atol=1e-9, covers=["src/rewards.py"])
def rewards_of_images(tree, rng):
    module, schedule = tree.load("rewards"), make_schedule(tree)
    reference = make_model(tree, rng)
    policy = shifted(reference, rng)
    found = {}
    for name, count, draws, arguments in (
        ("default", 4, 3, (0.7,)),
        ("likelihood", 2, 2, (0.2, "likelihood")),
        ("min-snr", 1, 2, (2.0, "min-snr")),
        ("one draw", 3, 1, (1.0,)),
    ):
        images, prompts = doubles(rng, count, 2, 3, 3), rng.torch.integers(0, 5, count)
        timesteps, noise = rng.torch.integers(0, STEPS, draws), doubles(rng, draws, 2, 3, 3)
        log = []

        def rewards(policy, reference):
            return module.implicit_rewards(
                policy, reference, schedule, images, prompts, timesteps, noise, *arguments
            )

        made = rewards(Watched(policy, log), Watched(reference, log))
        if name == "default":
            swapped = {
                "backwards": rewards(reference, policy),
                "same": rewards(policy, policy),
            }
        found[name] = {
            "rewards": made,
            "graph": made.requires_grad,
            "graphs": [x["graph"] for x in log],
            "prompts": [x["prompts"] for x in log],
            "timesteps": [x["timesteps"] for x in log],
        }
    single = module.implicit_rewards(
        policy.float(),
        reference.float(),
        schedule,
        rng.torch.normal(2, 2, 3, 3),
        torch.tensor([1, 2]),
        torch.tensor([3, 4]),
        rng.torch.normal(2, 2, 3, 3),
        1.0,
    )
    return {"found": found, **swapped, "dtype": str(single.dtype)}
