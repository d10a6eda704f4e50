"""Unit tests on the outputs of the cases, for the judge."""

from __future__ import annotations

import math

import numpy as np

from rcb_env.cases import check

BAD = "ValueError"


def distances(x, y):
    """All distances, by numpy."""
    return np.sqrt(((x[:, :, None] - y[:, None]) ** 2).sum(-1))


@check("distances_of_random_sets")
def distances_are_euclidean_and_sorted(out, ref):
    for run in out["runs"]:
        want = distances(run["x"], run["y"])
        assert run["untouched"]
        assert np.allclose(run["distances"], want), "wrong distances"
        for k, nearest in enumerate(run["nearest"], start=1):
            assert np.allclose(nearest, np.sort(want, axis=-1)[..., :k]), "wrong neighbours"
    assert out["single"].dtype == np.float32


@check("distances_of_equal_items")
def equal_items_have_no_gradient(out, ref):
    for name in ("x", "y", "itself"):
        assert np.isfinite(out[name]).all(), "a gradient is not finite"
    assert np.all(np.diagonal(out["distances"][1]) == 0), "equal items are at distance 0"
    assert np.allclose(out["near"], math.sqrt(3), rtol=1e-4), "small distances lose digits"
    assert np.allclose(out["far"], 1e-3 * math.sqrt(3), rtol=1e-4), "far items lose digits"
    assert out["refused"] == [BAD] * 3 + [None] * 2


@check("distances_of_large_sets_and_of_tiny_ones")
def gradients_of_tiny_distances_are_those_of_any(out, ref):
    for name, run in out.items():
        if name.startswith("scale"):
            for gradient in run["gradients"]:
                assert np.isfinite(gradient).all() and np.abs(gradient).max() > 0.1, name


@check("densities_of_gumbel_priors")
def densities_have_mass_one_and_their_mode_at_the_shift(out, ref):
    u = out["alpha"] * np.exp(-out["beta"] * out["d"])
    assert np.allclose(out["log density"], np.log(out["beta"] * u) - u), "wrong density"
    assert np.allclose(out["gradient"], -out["beta"] * (1 - u)), "wrong gradient"
    assert np.allclose(out["mass"], 1, atol=5e-3), "the density does not integrate to 1"
    low, mode, high = out["around"]
    assert np.all((mode > low) & (mode > high)), "the mode is elsewhere"
    assert np.isfinite(out["far"]).all(), "the logarithm underflows"


@check("fits_of_samples")
def fits_solve_their_equations(out, ref):
    for name in ("plain", "narrow", "wide"):
        run = out[name]
        assert run["untouched"]
        samples = run["samples"]
        mu, sigma = run["moments"]
        assert np.allclose(mu + 0.5772156649 * sigma, samples.mean(-1)), "wrong mean"
        assert np.allclose(sigma**2 * math.pi**2 / 6, samples.var(-1)), "wrong variance"
        mu, sigma = run["likelihood"]
        z = (samples - mu[:, None]) / sigma[:, None]
        assert np.allclose(np.exp(-z).mean(-1), 1), "the likelihood's slope in mu is not zero"
        assert np.allclose((z * (1 - np.exp(-z))).mean(-1), 1), "nor is that in sigma"
        first = (samples.mean(-1) - samples.min(-1)) / 2
        assert np.allclose(run["few"][0][1], first), "without halvings: the bracket's middle"
        assert np.shape(run["one row"][0]) == ()


@check("fits_at_the_edges")
def equal_samples_are_value_errors(out, ref):
    assert out["halvings"] == [BAD] * 2 + [None] * 2
    assert out["flat"] == [BAD] * 3 + [None] * 2
    assert np.isfinite(out["large"]).all()


@check("similarities_of_random_sets")
def similarities_are_mean_log_likelihoods(out, ref):
    priors = {
        "one": ([1.0], [2.0], 0.0),
        "shifted": ([0.3], [1.5], -0.8),
        "three": ([1.0, 1.7, 0.4], [2.0, 0.8, 3.0], 0.1),
        "integers": ([1, 2], [3, 1], 0),
    }
    for name, (alphas, betas, delta) in priors.items():
        run = out["runs"][name]
        for key, x, y in [("there", out["x"], out["y"]), ("back", out["y"], out["x"])]:
            d = np.sort(distances(x, y), axis=-1)[..., : len(alphas)] + delta
            u = np.array(alphas) * np.exp(-np.array(betas) * d)
            want = np.log((np.array(betas) * u * np.exp(-u)).mean(-1)).mean(-1)
            assert np.allclose(run[key], want), f"{name}: wrong similarity"
        assert np.allclose(run["shuffled"], run["there"]), "the order of items matters"
        loss = -(run["there"] + run["back"]).mean() / 2
        assert math.isclose(float(run["loss"]), loss, rel_tol=1e-6), f"{name}: wrong loss"
        assert math.isclose(float(run["swapped"]), loss, rel_tol=1e-6), "the loss is symmetric"
    assert out["untouched"]
    assert np.isfinite(out["far"]).all(), "far sets underflow"


@check("similarities_that_are_refused")
def bad_priors_are_value_errors(out, ref):
    assert out["refused"] == [BAD] * 10
    assert out["accepted"] == [None] * 2
    assert np.allclose(out["equal sets"], math.log(1.5) - 1), "equal sets are at the mode"


@check("transports_of_random_sets")
def plans_have_the_right_margins(out, ref):
    for name, run in out["runs"].items():
        plan = run["plan"]
        assert np.allclose(plan.sum(axis=1), 1 / 6), f"{name}: wrong columns"
        assert np.allclose((plan * out["distances"]).sum((1, 2)), run["cost"]), f"{name}: cost"
    assert np.allclose(out["runs"]["converged"]["plan"].sum(axis=2), 1 / 4), "wrong rows"
    assert out["runs"]["default"]["iterations"] == 50
    assert out["runs"]["careless"]["iterations"] == 1
    assert out["runs"]["tolerant"]["iterations"] < 300
    assert out["single items"] == 7, "a tolerance of zero never stops"
    assert out["strict"] == 1
    assert out["untouched"]


@check("transports_that_are_refused")
def bad_settings_of_a_transport_are_value_errors(out, ref):
    assert out["epsilon"] == [BAD] * 4 + [None]
    assert out["iterations"] == [BAD] * 2 + [None]


@check("feature_sets")
def features_have_length_one(out, ref):
    maps, sets = out["maps"], out["sets"]
    assert sets.shape == (3, 6, 4)
    assert out["untouched"]
    for y in range(2):
        for x in range(3):
            item, want = sets[2, 3 * y + x], maps[2, :, y, x]
            assert np.allclose(item, want / np.linalg.norm(want), atol=1e-6)
    assert np.all(sets[0, 5] == 0)
    assert np.allclose(sets[1, 1], 0.01, rtol=1e-4), "tiny features are divided by 1e-12"


@check("scores_of_episodes")
def an_image_of_the_support_is_recognized(out, ref):
    assert out["scores"].shape == (3, 3)
    assert out["default"][1].argmax() == 1, "the query is the only image of class 1"
    assert np.allclose(out["warm"] * 2, out["default"])
    assert np.allclose(out["fewer ways"], out["default"][:, :2])
    assert np.allclose(out["one query"], out["default"][:1])
    assert out["temperature"] == [BAD] * 3 + [None]
    assert out["ways"] == [BAD] * 3 + [None] * 2


@check("losses_of_episodes")
def losses_are_cross_entropies(out, ref):
    scores, targets = out["scores"], out["targets"]
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    right = logs[np.arange(7), targets]
    assert math.isclose(float(out["plain"][0]), -right.mean(), rel_tol=1e-6)
    for smoothing, (value, accuracy) in zip((0.1, 0.2, 1.0), out["smooth"]):
        want = -((1 - smoothing) * right + smoothing * logs.mean(1)).mean()
        assert math.isclose(float(value), want, rel_tol=1e-6), "wrong smoothed loss"
        assert math.isclose(float(accuracy), (scores.argmax(1) == targets).mean())
    assert [float(a) for _, a in out["ties"]] == [1, 0, 0.5], "the first of several wins"
    assert np.isfinite(float(out["large"][0]))
