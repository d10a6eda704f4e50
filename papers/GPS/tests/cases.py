"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import math

import torch

from rcb_env.cases import case, raises

INF, NAN = math.inf, math.nan


def sets(rng, b=2, n=5, m=7, d=3):
    """Two batches of sets in double precision."""
    return rng.torch.normal(b, n, d).double(), rng.torch.normal(b, m, d).double()


@case(seeds=3, covers=["src/distances.py"])
def distances_of_random_sets(tree, rng):
    module = tree.load("distances")
    results = []
    for shape in [(2, 5, 7, 3), (1, 1, 4, 1), (3, 4, 1, 2)]:
        x, y = sets(rng, *shape)
        before = x.clone()
        x.requires_grad_(True)
        weights = rng.torch.normal(shape[0], shape[1], shape[2]).double()
        d = module.pairwise_distances(x, y)
        (d * weights).sum().backward()
        results.append(
            {
                "x": before,
                "y": y,
                "distances": d,
                "gradient": x.grad,
                "nearest": [module.nearest_distances(x, y, k) for k in range(1, shape[2] + 1)],
                "untouched": torch.equal(before, x),
            }
        )
    return {"runs": results, "single": module.pairwise_distances(x.float(), y.float())}


@case(seeds=2, rtol=1e-6, covers=["src/distances.py"])
def distances_of_large_sets_and_of_tiny_ones(tree, rng):
    module = tree.load("distances")
    x, y = (1e6 + part for part in sets(rng, 2, 40, 30))
    y = x[:, 5:35] + 1e-3 * rng.torch.normal(2, 30, 3).double()
    results = {"large": module.pairwise_distances(x, y), "near": module.nearest_distances(x, y, 3)}
    for scale in (1e-10, 1e-20, 1e-100):
        x, y = ((scale * part).requires_grad_(True) for part in sets(rng))
        module.pairwise_distances(x, y).sum().backward()
        gradients = [x.grad, y.grad]
        x.grad = y.grad = None
        nearest = module.nearest_distances(x, y, 2)
        nearest.sum().backward()
        results[f"scale {scale}"] = {"nearest": nearest / scale, "gradients": [*gradients, x.grad, y.grad]}
    return results


@case(seeds=2, covers=["src/distances.py"])
def distances_of_equal_items(tree, rng):
    module = tree.load("distances")
    x, y = sets(rng, 2, 4, 4)
    y[:, 1] = x[:, 2]
    y[1] = x[1]
    x.requires_grad_(True)
    y.requires_grad_(True)
    d = module.pairwise_distances(x, y)
    (d**2 + 3 * d).sum().backward()
    near = x.detach() + 1e-7
    far = (1e6 + x).detach()
    z = x.detach().clone().requires_grad_(True)
    module.nearest_distances(z, z.detach(), 2).sum().backward()
    return {
        "distances": d,
        "x": x.grad,
        "y": y.grad,
        "near": module.nearest_distances(x, near, 1) * 1e7,
        "far": module.nearest_distances(far, far + 1e-3, 1),
        "itself": z.grad,
        "refused": [raises(lambda k=k: module.nearest_distances(x, y, k)) for k in (0, -1, 5, 1, 4)],
    }


@case(seeds=3, covers=["src/gumbel.py"])
def densities_of_gumbel_priors(tree, rng):
    module = tree.load("gumbel")
    d = (3 * rng.torch.normal(4, 6)).double().requires_grad_(True)
    alpha = (0.2 + 2 * rng.torch.uniform(6)).double().requires_grad_(True)
    beta = (0.3 + 2 * rng.torch.uniform(6)).double().requires_grad_(True)
    found = module.log_density(d, alpha, beta)
    found.sum().backward()
    gradients = [alpha.grad, beta.grad]
    alpha, beta = alpha.detach(), beta.detach()
    grid = torch.linspace(-15, 40, 4001, dtype=torch.float64)[:, None]
    shift = module.mode_shift(alpha, beta)
    around = torch.tensor([[-0.01], [0.0], [0.01]], dtype=torch.float64)
    return {
        "d": d,
        "alpha": alpha,
        "beta": beta,
        "log density": found,
        "gradient": d.grad,
        "gradients of the settings": gradients,
        "before": module.log_density(torch.tensor([-30.0, -5.0]).double(), alpha[:1], torch.tensor(2.0).double()),
        "mass": module.log_density(grid, alpha, beta).exp().sum(dim=0) * (55 / 4000),
        "shift": shift,
        "around": module.log_density(around + shift, alpha, beta),
        "far": module.log_density(torch.tensor([1e4, 1e6]), torch.tensor(0.5), torch.tensor(3.0)),
    }


@case(seeds=3, rtol=1e-6, covers=["src/gumbel.py"])
def fits_of_samples(tree, rng):
    module = tree.load("gumbel")
    results = {}
    for name, scale, place in [("plain", 1.0, 0.0), ("narrow", 0.01, 5.0), ("wide", 30.0, -100.0)]:
        u = rng.numpy.uniform(size=(3, 40))
        samples = torch.from_numpy(place - scale * torch.log(-torch.log(torch.from_numpy(u))).numpy())
        before = samples.clone()
        moments, likely = module.fit_moments(samples), module.fit_likelihood(samples)
        results[name] = {
            "samples": before,
            "moments": list(moments),
            "likelihood": list(likely),
            "few": [list(module.fit_likelihood(samples, n)) for n in (0, 1, 2, 3, 6)],
            "one row": list(module.fit_likelihood(samples[1], 12)),
            "one row by moments": list(module.fit_moments(samples[1])),
            "untouched": torch.equal(before, samples),
        }
    results["more dimensions"] = list(module.fit_likelihood(rng.torch.normal(2, 3, 9).double(), 25))
    results["two samples"] = list(module.fit_likelihood(torch.tensor([[1.0, 3.0]]).double()))
    single = rng.torch.normal(30)
    fits = [*module.fit_likelihood(single, 12), *module.fit_moments(single)]
    results["single"] = [str(part.dtype) for part in fits]
    return results


@case(seeds=1, covers=["src/gumbel.py"])
def fits_at_the_edges(tree, rng):
    module = tree.load("gumbel")
    samples = rng.torch.normal(3, 6).double()
    flat = samples.clone()
    flat[1] = 2.5
    return {
        "halvings": [raises(lambda n=n: module.fit_likelihood(samples, n)) for n in (-1, -2, 0, 1)],
        "flat": [
            raises(lambda: module.fit_likelihood(flat)),
            raises(lambda: module.fit_likelihood(flat[1])),
            raises(lambda: module.fit_likelihood(flat, 0)),
            raises(lambda: module.fit_likelihood(flat[:1], 2)),
            raises(lambda: module.fit_likelihood(1e-12 * samples)),
        ],
        "large": list(module.fit_likelihood(samples + 1e5, 20)),
    }


PRIORS = {
    "one": ([1.0], [2.0], 0.0),
    "shifted": ([0.3], [1.5], -0.8),
    "three": ([1.0, 1.7, 0.4], [2.0, 0.8, 3.0], 0.1),
    "integers": ([1, 2], [3, 1], 0),
}


@case(seeds=3, rtol=1e-9, atol=1e-10, covers=["src/similarity.py"])
def similarities_of_random_sets(tree, rng):
    module = tree.load("similarity")
    x, y = sets(rng, 3, 4, 6)
    shuffled = x[:, rng.torch.permutation(4)], y[:, rng.torch.permutation(6)]
    before = x.clone()
    results = {}
    for name, (alphas, betas, delta) in PRIORS.items():
        leaf, other = x.clone().requires_grad_(True), y.clone().requires_grad_(True)
        loss = module.gps_loss(leaf, other, alphas, betas, delta)
        loss.backward()
        results[name] = {
            "there": module.directed_similarity(x, y, alphas, betas, delta),
            "back": module.directed_similarity(y, x, alphas, betas, delta),
            "shuffled": module.directed_similarity(*shuffled, alphas, betas, delta),
            "loss": loss,
            "gradient": leaf.grad,
            "gradient of the other": other.grad,
            "swapped": module.gps_loss(y, x, alphas, betas, delta),
        }
    return {
        "x": before,
        "y": y,
        "runs": results,
        "default": module.directed_similarity(x, y, [0.5], [1.5]),
        "default loss": module.gps_loss(x, y, [0.5], [1.5]),
        "untouched": torch.equal(before, x),
        "far": module.directed_similarity(x, y + 1e4, [1.0, 2.0], [5.0, 5.0]),
    }


@case(seeds=1, covers=["src/similarity.py"])
def similarities_in_single_precision(tree, rng):
    module = tree.load("similarity")
    x, y = (part.float() for part in sets(rng, 3, 4, 6))
    return {
        "similarity": module.directed_similarity(x, y, [0.5, 2.0], [1.5, 1.0]),
        "loss": module.gps_loss(x, y, [0.5, 2.0], [1.5, 1.0]),
    }


@case(seeds=1, covers=["src/similarity.py"])
def similarities_that_are_refused(tree, rng):
    similarity = tree.load("similarity").directed_similarity
    x, y = sets(rng, 1, 3, 2)
    refused = [([1.0], [1.0, 2.0]), ([1.0, 2.0], [1.0]), ([], []), ([0.0], [1.0]), ([1.0], [0.0])]
    refused += [([-1.0], [1.0]), ([1.0], [-2.0]), ([NAN], [1.0]), ([1.0, 1.0], [1.0, NAN])]
    refused += [([1.0] * 3, [1.0] * 3)]
    return {
        "refused": [raises(lambda p=p: similarity(x, y, *p)) for p in refused],
        "accepted": [raises(lambda k=k: similarity(x, y, [0.5] * k, [2.0] * k)) for k in (1, 2)],
        "equal sets": similarity(x, x.clone(), [0.2], [1.5], math.log(0.2) / 1.5),
    }


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/transport.py"])
def transports_of_random_sets(tree, rng):
    sinkhorn = tree.load("transport").sinkhorn_distance
    x, y = sets(rng, 2, 4, 6, 2)
    before = x.clone()
    results = {}
    for name, settings in {
        "default": {},
        "one": {"iterations": 1},
        "three": {"iterations": 3, "epsilon": 0.5},
        "converged": {"iterations": 150, "epsilon": 1.5},
        "tolerant": {"iterations": 300, "epsilon": 0.5, "tolerance": 0.01},
        "careless": {"iterations": 300, "epsilon": 1.5, "tolerance": 1e9},
        "sharp": {"epsilon": 1e-3, "iterations": 20},
    }.items():
        leaf, other = x.clone().requires_grad_(True), y.clone().requires_grad_(True)
        found = sinkhorn(leaf, other, **settings)
        found.cost.sum().backward()
        results[name] = {
            "cost": found.cost,
            "plan": found.plan,
            "iterations": int(found.iterations),
            "gradient": [leaf.grad, other.grad] if settings.get("epsilon", 0.1) > 0.2 else None,
        }
    return {
        "runs": results,
        "distances": torch.cdist(x, y),
        "untouched": torch.equal(before, x),
        "single items": int(sinkhorn(x[:, :1], y[:, :1], iterations=7).iterations),
        "strict": int(sinkhorn(x[:, :1], y[:, :1], 1.0, 7, 1e-3).iterations),
    }


@case(seeds=1, covers=["src/transport.py"])
def transports_that_are_refused(tree, rng):
    sinkhorn = tree.load("transport").sinkhorn_distance
    x, y = sets(rng, 1, 2, 2)
    return {
        "epsilon": [raises(lambda v=v: sinkhorn(x, y, v)) for v in (0.0, -1.0, INF, NAN, 0.5)],
        "iterations": [raises(lambda n=n: sinkhorn(x, y, 0.5, n)) for n in (0, -1, 1)],
    }


@case(seeds=3, covers=["src/few_shot.py"])
def feature_sets(tree, rng):
    local = tree.load("few_shot").local_features
    maps = rng.torch.normal(3, 4, 2, 3)
    maps[0, :, 1, 2] = 0
    maps[1, :, 0, 1] = 1e-14
    before = maps.clone()
    return {"maps": before, "sets": local(maps), "untouched": torch.equal(maps, before)}


@case(seeds=3, covers=["src/few_shot.py"])
def scores_of_episodes(tree, rng):
    module = tree.load("few_shot")
    labels = torch.tensor([2, 0, 1, 0, 2, 2])
    support = rng.torch.normal(6, 4, 2, 3).double()
    query = rng.torch.normal(3, 4, 2, 3).double()
    query[1] = support[2]
    leaf, asked = support.clone().requires_grad_(True), query.clone().requires_grad_(True)
    scores = module.episode_scores(leaf, labels, asked, 3, [1.0, 0.5], [4.0, 3.0], 0.1, 0.3)
    scores.square().sum().backward()

    def refused(ways, temperature):
        return raises(
            lambda: module.episode_scores(
                support, labels, query, ways, [1.0], [4.0], 0.0, temperature
            )
        )

    return {
        "scores": scores,
        "gradient": leaf.grad,
        "gradient of the query": asked.grad,
        "many shots": module.episode_scores(support, labels * 0, query, 1, [1.0], [4.0]),
        "default": module.episode_scores(support, labels, query, 3, [1.0], [4.0]),
        "warm": module.episode_scores(support, labels, query, 3, [1.0], [4.0], temperature=2.0),
        "fewer ways": module.episode_scores(support, labels, query, 2, [1.0], [4.0]),
        "one query": module.episode_scores(support, labels, query[:1], 3, [1.0], [4.0]),
        "temperature": [refused(3, v) for v in (0.0, -1.0, NAN, 0.5)],
        "ways": [refused(4, 1.0), refused(0, 1.0), refused(-1, 1.0), refused(3, 1.0), refused(1, 1.0)],
    }


@case(seeds=3, covers=["src/few_shot.py"])
def losses_of_episodes(tree, rng):
    loss = tree.load("few_shot").episode_loss
    scores = rng.torch.normal(7, 4).double()
    targets = rng.torch.integers(0, 4, 7)
    targets[0] = scores[0].argmax()
    leaf = scores.clone().requires_grad_(True)
    value, _ = loss(leaf, targets, 0.2)
    value.backward()
    ties = torch.tensor([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0]])
    return {
        "scores": scores,
        "targets": targets,
        "plain": list(loss(scores, targets)),
        "smooth": [list(loss(scores, targets, v)) for v in (0.1, 0.2, 1.0)],
        "gradient": leaf.grad,
        "ties": [list(loss(ties, torch.tensor(t))) for t in ([0, 1], [1, 2], [0, 2])],
        "large": list(loss(1e4 * scores, targets)),
    }
