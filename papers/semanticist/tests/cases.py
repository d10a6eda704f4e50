"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import math

import torch

from rcb_env.cases import case, raises


def randomize(module, rng, std=0.3):
    """Drawn parameters in double precision."""
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(rng.torch.normal(*parameter.shape, std=std).double())
    return module


def build_encoder(tree, rng, concepts=5, channels=2, image=6, patch=2, dim=3):
    return randomize(
        tree.load("encoder").ConceptEncoder(image, patch, channels, 8, 2, 2, concepts, dim), rng
    )


def build_decoder(tree, rng, concepts=5, channels=2, image=6, patch=2, dim=3):
    return randomize(
        tree.load("decoder").ConceptDecoder(image, patch, channels, 8, 2, 2, concepts, dim), rng
    )


# --- encoder -----------------------------------------------------------------------------------


@case(seeds=2, covers=["src/encoder.py"])
def masks_of_many_sizes(tree, rng):
    mask_of = tree.load("encoder").concept_mask
    sizes = [(4, 3), (1, 1), (1, 4), (5, 1), (3, 0), (0, 3)]
    sizes += [tuple(int(n) for n in rng.numpy.integers(2, 9, 2)) for _ in range(3)]
    return {"sizes": sizes, "masks": [mask_of(*size) for size in sizes]}


@case(seeds=3, rtol=1e-6, atol=1e-8, covers=["src/encoder.py"])
def tokens_of_random_images(tree, rng):
    encoder = build_encoder(tree, rng)
    images = rng.torch.normal(3, 2, 6, 6).double().requires_grad_()
    tokens = encoder(images)
    weights = rng.torch.normal(*tokens.shape).double()
    grads = torch.autograd.grad((tokens * weights).sum(), [images, *encoder.parameters()])
    return {
        "tokens": tokens,
        "grads": list(grads),
        "one": encoder(images[1:2]),
        "second": torch.autograd.grad(encoder(images)[:, 1, 0].sum(), encoder.queries)[0],
    }


@case(seeds=1, rtol=1e-5, atol=1e-6, covers=["src/encoder.py"])
def encoders_of_other_sizes(tree, rng):
    small = build_encoder(tree, rng, concepts=1, channels=1, image=4, patch=4, dim=2)
    faint = build_encoder(tree, rng)
    with torch.no_grad():
        faint.out.weight.mul_(1e-3)
        faint.out.bias.zero_()
    images = rng.torch.normal(2, 2, 6, 6).double()
    single = tree.load("encoder").ConceptEncoder(6, 3, 1, 8, 2, 1, 4, 5)
    return {
        "small": small(rng.torch.normal(2, 1, 4, 4).double()),
        "faint": faint(images),
        "dtype": str(single(torch.zeros(1, 1, 6, 6)).dtype),
        "refused": [
            raises(lambda s=s: faint(torch.zeros(1, 2, *s).double()))
            for s in ((6, 8), (8, 6), (4, 6), (6, 4), (7, 7), (12, 3), (6, 6))
        ],
    }


# --- nested guidance ---------------------------------------------------------------------------


@case(seeds=3, covers=["src/nested.py"])
def counts_of_random_numbers(tree, rng):
    counts = tree.load("nested").keep_counts
    uniforms = rng.torch.uniform(200, 2)
    edges = torch.tensor([[0.0, 0.5], [0.25, 0.5], [0.249, 0.5], [0.75, 0.1], [0.999, 0.0999]])
    return {
        "uniforms": uniforms,
        "counts": [counts(uniforms, k, p) for k, p in ((4, 0.1), (7, 0.5), (1, 0.0), (6, 1.0))],
        "edges": counts(edges, 4, 0.1),
        "exact": counts(torch.tensor([[0.5, 0.25], [0.5, 0.2499], [0.5, 0.0]]), 8, 0.25),
        "all": counts(torch.tensor([[0.5, 0.9999], [0.1, 0.99999], [0.9, 0.0]]), 6, 1.0),
        "double": counts(uniforms.double(), 5, 0.3),
    }


@case(seeds=2, covers=["src/nested.py"])
def tails_of_random_tokens(tree, rng):
    replace = tree.load("nested").replace_tail
    tokens = rng.torch.normal(6, 5, 3).double().requires_grad_()
    null = rng.torch.normal(3).double().requires_grad_()
    counts = torch.tensor([0, 1, 2, 3, 4, 5])[rng.torch.permutation(6)]
    told = replace(tokens, counts, null)
    weights = rng.torch.normal(6, 5, 3).double()
    grads = torch.autograd.grad((told * weights).sum(), [tokens, null])
    return {
        "tokens": tokens,
        "null": null,
        "counts": counts,
        "told": told,
        "weights": weights,
        "grads": list(grads),
        "refused": [
            raises(lambda c=c: replace(tokens, torch.tensor(c), null))
            for c in (
                [0, 1, 2, 3, 4, -1],
                [6, 1, 2, 3, 4, 5],
                [-3] * 6,
                [9] * 6,
                [0] * 6,
                [5] * 6,
            )
        ],
    }


# --- decoder -----------------------------------------------------------------------------------


@case(seeds=3, rtol=1e-6, atol=1e-8, covers=["src/decoder.py"])
def noise_of_random_images(tree, rng):
    found = []
    for channels, image, patch, concepts in ((2, 6, 2, 5), (1, 4, 2, 1), (3, 6, 3, 2), (2, 3, 3, 4)):
        decoder = build_decoder(tree, rng, concepts, channels, image, patch)
        noised = rng.torch.normal(3, channels, image, image).double().requires_grad_()
        tokens = rng.torch.normal(3, concepts, 3).double().requires_grad_()
        times = rng.torch.integers(0, 1000, 3)
        noise = decoder(noised, times, tokens)
        weights = rng.torch.normal(*noise.shape).double()
        learnt = [weight for name, weight in decoder.named_parameters() if name != "null"]
        grads = torch.autograd.grad((noise * weights).sum(), [noised, tokens, *learnt])
        found.append({"noise": noise, "grads": list(grads), "one": decoder(noised[:1], times[:1], tokens[:1])})
    return found


@case(seeds=1, rtol=1e-6, atol=1e-8, covers=["src/decoder.py"])
def noise_of_a_decoder_without_blocks(tree, rng):
    decoder = tree.load("decoder").ConceptDecoder(4, 2, 3, 8, 2, 0, 2, 3).double()
    with torch.no_grad():
        decoder.out.weight.zero_()
        decoder.out.bias.copy_(torch.arange(12))
    image = decoder(torch.zeros(1, 3, 4, 4).double(), torch.tensor([3]), torch.zeros(1, 2, 3).double())
    single = tree.load("decoder").ConceptDecoder(4, 2, 1, 8, 2, 1, 2, 3)
    made = single(rng.torch.normal(1, 1, 4, 4), torch.tensor([3]), torch.zeros(1, 2, 3))
    return {"image": image, "dtype": str(made.dtype)}


# --- diffusion ---------------------------------------------------------------------------------


class Recorder:
    """A decoder that notes what it is told, and answers with something simple."""

    def __init__(self, matrix):
        self.matrix, self.calls = matrix, []

    def __call__(self, noised, times, tokens):
        self.calls.append([list(noised.shape), times.clone(), tokens.detach().clone()])
        pull = torch.einsum("bkd,dc->bc", tokens, self.matrix)[:, :, None, None]
        return torch.tanh(noised * (1 + 0.001 * times.to(noised.dtype))[:, None, None, None] + pull)


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/diffusion.py"])
def loss_of_random_images(tree, rng):
    module = tree.load("diffusion")
    schedule = module.NoiseSchedule(50)
    images = rng.torch.normal(8, 2, 3, 3).double().requires_grad_()
    noise = rng.torch.normal(8, 2, 3, 3).double()
    mixer = rng.torch.normal(18, 12).double().requires_grad_()
    null = rng.torch.normal(3).double().requires_grad_()
    matrix = rng.torch.normal(3, 2, std=0.5).double()
    times = rng.torch.integers(0, 50, 8)
    times[0], times[1] = 0, 49
    uniforms = rng.torch.uniform(8, 2)

    def encoder(x):
        return (x.flatten(1) @ mixer).unflatten(1, (4, 3)).tanh()

    found = []
    for settings in ({}, {"drop": 0.0}, {"drop": 0.6}, {"drop": 1.0}):
        decoder = Recorder(matrix)
        made = module.tokenizer_loss(
            encoder, decoder, null, schedule, images, times, noise, uniforms, **settings
        )
        loss, errors = made.mean, made.errors
        single = torch.autograd.grad(errors[2], images, retain_graph=True)[0]
        grads = torch.autograd.grad(loss, [mixer, null, images], allow_unused=True)
        found.append(
            {
                "loss": loss,
                "errors": errors,
                "by_count": made.by_count,
                "single": single,
                "detached": not made.by_count.requires_grad,
                "grads": [torch.zeros(1) if g is None else g for g in grads],
                "calls": decoder.calls,
            }
        )

    large = module.tokenizer_loss(
        encoder, Recorder(matrix), null, schedule, images, times, 30 * noise, uniforms
    )

    def attempt(bad):
        changed = times.clone()
        changed[3] = bad
        return raises(
            lambda: module.tokenizer_loss(
                encoder, Recorder(matrix), null, schedule, images, changed, noise, uniforms
            )
        )

    return {
        "images": images,
        "noise": noise,
        "times": times,
        "uniforms": uniforms,
        "alpha_bar": schedule.alpha_bar,
        "found": found,
        "large": [large.mean, large.errors, large.by_count],
        "tokens": encoder(images),
        "null": null,
        "matrix": matrix,
        "refused": [attempt(bad) for bad in (-1, 50, 51, -7, 49, 0)],
        "shapes": [
            raises(
                lambda n=n: module.tokenizer_loss(
                    encoder, Recorder(matrix), null, schedule, images, times, n, uniforms
                )
            )
            for n in (noise[:1], noise[:, :1], noise[:, :, :, :1], noise)
        ],
    }


@case(seeds=1, rtol=1e-4, atol=1e-5, covers=["src/diffusion.py"])
def loss_in_single_precision(tree, rng):
    module = tree.load("diffusion")
    images, noise = rng.torch.normal(2, 1, 2, 2), rng.torch.normal(2, 1, 2, 2)
    tokens = rng.torch.normal(2, 3, 2)
    made = module.tokenizer_loss(
        lambda x: tokens,
        Recorder(rng.torch.normal(2, 1)),
        torch.zeros(2),
        module.NoiseSchedule(),
        images,
        torch.tensor([500, 20]),
        noise,
        rng.torch.uniform(2, 2),
    )
    return {"loss": made.mean, "errors": made.errors, "by_count": made.by_count}


@case(seeds=3, rtol=1e-6, atol=1e-8, covers=["src/diffusion.py"])
def reconstructions_from_random_tokens(tree, rng):
    module = tree.load("diffusion")
    schedule = module.NoiseSchedule(60)
    tokens, null = rng.torch.normal(3, 4, 3).double(), rng.torch.normal(3).double()
    null.requires_grad_()
    noise = rng.torch.normal(3, 2, 2, 2).double()
    matrix = rng.torch.normal(3, 2, std=0.4).double()
    found = []
    for keep, steps, guidance in (
        (4, 5, 1.0),
        (2, 5, 1.0),
        (0, 4, 1.0),
        (1, 4, 3.0),
        (4, 3, 0.0),
        (0, 3, 2.5),
        (3, 1, 1.0),
        (3, 2, 0.5),
        (2, 3, 1.0005),
        (2, 60, 1.0),
    ):
        decoder = Recorder(matrix)
        image = module.reconstruct(decoder, null, schedule, tokens, keep, noise, steps, guidance)
        found.append(
            {
                "settings": [keep, steps, guidance],
                "image": image,
                "calls": decoder.calls,
                "recorded": image.requires_grad,
            }
        )
    default = module.reconstruct(Recorder(matrix), null, schedule, tokens, 2, noise, 5)
    return {
        "tokens": tokens,
        "null": null,
        "noise": noise,
        "alpha_bar": schedule.alpha_bar,
        "found": found,
        "default": default,
        "refused": [
            raises(
                lambda k=k: module.reconstruct(
                    Recorder(matrix), null, schedule, tokens, k, noise, 2
                )
            )
            for k in (-1, 5, 0, 4)
        ],
    }


@case(seeds=1, rtol=1e-6, atol=1e-8, covers=["src/diffusion.py"])
def reconstructions_by_a_decoder_that_knows(tree, rng):
    module = tree.load("diffusion")
    schedule = module.NoiseSchedule(100)
    truth = rng.torch.uniform(2, 1, 3, 3, low=-0.9, high=0.9).double()
    tokens, null = torch.zeros(2, 3, 2).double(), torch.zeros(2).double()

    def decoder(noised, times, told):
        left = schedule.alpha_bar[times][:, None, None, None]
        return (noised - left.sqrt() * truth) / (1 - left).sqrt()

    noise = rng.torch.normal(2, 1, 3, 3).double()
    image = module.reconstruct(decoder, null, schedule, tokens, 1, noise, 7)
    return {"truth": truth, "image": image}


# --- autoregression ----------------------------------------------------------------------------


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/autoregression.py"])
def sequences_of_random_labels(tree, rng):
    write = tree.load("autoregression").write_tokens
    classes = rng.torch.normal(6, 4).double()
    inward = rng.torch.normal(3, 4, std=0.6).double().requires_grad_()
    outward = rng.torch.normal(4, 3, std=0.6).double()
    labels = rng.torch.integers(0, 5, 2)
    noise = rng.torch.normal(2, 5, 3).double()
    prefix = rng.torch.normal(2, 5, 3).double()
    found = []
    for guidance, given in ((1.0, 0), (3.0, 0), (0.0, 0), (2.0, 2), (1.0, 3), (4.0, 5), (1.0, 5), (1.0005, 1)):
        calls = []

        def model(tokens, marks):
            calls.append(["model", list(tokens.shape), marks.clone()])
            start = classes[marks][:, None]
            return torch.cat([start, start + (tokens @ inward).cumsum(dim=1)], dim=1).tanh()

        def sampler(states, fresh):
            calls.append(["sampler", list(states.shape), fresh.clone()])
            return states @ outward + 0.3 * fresh

        made = write(
            model, sampler, labels, 5, noise, guidance, prefix[:, :given] if given else None
        )
        found.append(
            {
                "settings": [guidance, given],
                "tokens": made,
                "calls": calls,
                "recorded": made.requires_grad,
            }
        )
    return {"found": found, "labels": labels, "prefix": prefix, "noise": noise}


@case(seeds=2, rtol=1e-6, atol=1e-9, covers=["src/autoregression.py"])
def sequences_of_a_model_that_knows_its_label(tree, rng):
    write = tree.load("autoregression").write_tokens
    labels = rng.torch.integers(1, 9, 3)

    def model(tokens, marks):
        return marks.double()[:, None, None].expand(-1, tokens.shape[1] + 1, 2)

    return {
        "labels": labels,
        "tokens": write(
            model, lambda s, f: s + f, labels, 0, rng.torch.normal(3, 4, 2).double() * 0, 3.0
        ),
        "plain": write(model, lambda s, f: s + f, labels, 0, torch.zeros(3, 4, 2).double()),
        "single": write(
            lambda t, m: torch.ones(len(t), t.shape[1] + 1, 2), lambda s, f: s + f, labels, 0,
            rng.torch.normal(3, 2, 2), 1.5,
        ),
    }


# --- analysis ----------------------------------------------------------------------------------


def same_images(explain):
    """Images that are all the same, of numbers whose mean is rounded."""
    found = []
    for count in (3, 6, 7, 11):
        images = torch.full((count, 2), 0.7, dtype=torch.float64)
        found.append(raises(lambda images=images: explain(images, images[None])))
    return found


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/analysis.py"])
def explained_variance_of_components(tree, rng):
    explain = tree.load("analysis").explained_variance
    images = rng.torch.normal(12, 2, 3, 3).double()
    centre = images.flatten(1).mean(dim=0)
    u, s, v = torch.linalg.svd(images.flatten(1) - centre, full_matrices=False)
    parts = [centre + (u[:, :k] * s[:k]) @ v[:k] for k in range(1, 7)]
    components = torch.stack(parts).reshape(6, *images.shape)
    noisy = images + rng.torch.normal(4, 12, 2, 3, 3).double()
    made = {
        "components": explain(images, components),
        "backwards": explain(images, components.flip(0)),
        "noisy": explain(images, noisy),
        "one": explain(images, components[:1]),
        "vectors": explain(images[:, 0, 0], images[:, 0, 0] * rng.torch.uniform(3, 1, 1).double()),
    }
    flat = images[:1].expand(4, 2, 3, 3)
    steps = torch.tensor([1.0, 0.5, 0.0]).double()
    line = torch.tensor([-2.0, 2.0]).double()
    return {
        "made": {name: list(value) for name, value in made.items()},
        "spectrum": s,
        "images": images,
        "noisy": noisy,
        "equal gains": explain(
            line[:, None].expand(2, 2), torch.tensor([[[-2.0, 0], [2, 0]], [[-2, -2], [2, 2]]]).double()
        ).ordered,
        "rising gains": explain(line, torch.stack([line * 0.1, line])).ordered,
        "nearly equal gains": [
            explain(line, torch.stack([line * (1 - 0.5**0.5 + tiny), line])).ordered
            for tiny in (1e-7, 1e-9, -1e-7, -1e-9)
        ],
        "faint": list(explain(1e-6 * images, 1e-6 * noisy)),
        "steps": list(explain(line, line * (1 - steps[:, None]))),
        "refused": [raises(lambda: explain(flat, flat[None])), *same_images(explain), raises(lambda: explain(images, noisy))],
    }


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/analysis.py"])
def spectra_of_random_images(tree, rng):
    spectrum = tree.load("analysis").radial_spectrum
    images = [rng.torch.normal(2, 3, n, n).double() for n in (8, 7, 2, 1, 5)]
    n = 8
    ticks = torch.arange(n).double() * 2 * math.pi / n
    waves = [
        (a * ticks[:, None] + b * ticks).cos()[None, None] for a, b in ((0, 0), (1, 0), (0, 3), (2, 2), (4, 0), (4, 4))
    ]
    return {
        "images": images,
        "spectra": [spectrum(image) for image in images],
        "faint": [1e12 * spectrum(1e-6 * image) for image in images],
        "waves": [spectrum(wave) for wave in waves],
        "single": spectrum(rng.torch.normal(1, 1, 4, 4)),
    }
