"""Facts about the outputs that follow from the paper's equations, whatever the reference says."""

from __future__ import annotations

import math

import numpy as np

from rcb_env.cases import check

BAD, GOOD = "ValueError", None


def wide(values, images):
    """One number per image, shaped to be multiplied with images."""
    return np.reshape(values, (-1, *[1] * (images.ndim - 1)))


def norms(values):
    """Sum of squares of each image."""
    return np.square(values).reshape(len(values), -1).sum(axis=1)


def log_density(noisy, clean, gammas):
    """Logarithm of the Gaussian of the forward process, up to a constant."""
    sigma = np.sqrt(1 - gammas**2)
    return -norms(noisy - wide(gammas, clean) * clean) / (2 * sigma**2)


@check("draws_from_the_mixture")
def draws_lie_around_one_of_both_images(out, ref):
    for run in out["runs"]:
        gamma = wide(run["gammas"], run["kept"])
        noise = np.sqrt(1 - gamma**2) * run["noise"]
        for mixing, made in run["made"].items():
            forgotten = wide(run["uniforms"] < float(mixing), run["kept"])
            want = gamma * np.where(forgotten, run["forgotten"], run["kept"]) + noise
            assert np.allclose(made, want, atol=1e-5), "not a draw from the mixture"
            assert made.dtype == np.float32
        assert run["untouched"]
    assert out["double"].dtype == np.float64


@check("ratios_of_random_images")
def ratios_are_quotients_of_densities(out, ref):
    for run in out:
        keep = log_density(run["noisy"], run["kept"], run["gammas"])
        forget = log_density(run["noisy"], run["forgotten"], run["gammas"])
        for name, made in run["made"].items():
            mixing = float(name)
            share = np.array([1 - mixing, mixing])[:, None]
            assert made.shape == (2, len(keep)) and made.dtype == np.float64
            assert np.allclose((share * made).sum(axis=0), 1), "the mixture is not normalised"
            mixture = (1 - mixing) * np.exp(keep) + mixing * np.exp(forget)
            assert np.allclose(made[0] * mixture, np.exp(keep), rtol=1e-5, atol=1e-300)
            assert np.allclose(made[1] * mixture, np.exp(forget), rtol=1e-5, atol=1e-300)


@check("ratios_at_the_edges")
def ratios_survive_underflow(out, ref):
    assert np.allclose(out["far from both"], [[1 / 0.75] * 2, [0, 0]])
    assert np.allclose(out["far from both, other side"], [[0, 0], [4, 4]])
    for name in ("between", "same", "same at 0"):
        assert np.allclose(out[name], 1), f"{name}: equally likely images have ratio 1"
    assert not out["graph"] and out["dtype"] == "torch.float64"
    assert out["refused"] == [BAD] * 8
    assert out["accepted"] == [GOOD] * 5


@check("terms_of_random_images")
def terms_are_weighted_errors_of_one_prediction(out, ref):
    for run in out:
        assert len(run["calls"]) == 1, "the model is called once"
        noisy = run["calls"][0][0]
        if "both" in run:
            errors = norms(run["both"] - run["predicted"])
            want = np.split(errors, 2)
        else:
            densities = []
            want = []
            for clean in (run["kept"], run["forgotten"]):
                densities.append(log_density(noisy, clean, run["gammas"]))
                gamma = wide(run["gammas"], clean)
                target = (noisy - gamma * clean) / np.sqrt(1 - gamma**2)
                want.append(norms(target - run["predicted"]))
            with np.errstate(divide="ignore"):
                shares = np.log([1 - run["mixing"], run["mixing"]])
            mixture = np.logaddexp(densities[0] + shares[0], densities[1] + shares[1])
            want = [w * np.exp(d - mixture) for w, d in zip(want, densities)]
        assert np.allclose(run["keep"], want[0], rtol=1e-5), "the term to keep is wrong"
        assert np.allclose(run["forget"], want[1], rtol=1e-5), "the term to forget is wrong"


@check("terms_at_the_edges")
def images_of_other_shape_are_refused(out, ref):
    assert out["refused"] == [BAD] * 4
    assert out["mixing"] == [BAD, BAD, GOOD, GOOD]
    assert out["dtypes"] == ["torch.float32"] * 4
    assert np.allclose(out["same"][0], out["same"][1], rtol=1e-4)


@check("terms_at_the_edges")
def images_and_noise_have_no_gradient(out, ref):
    assert all(out["gradients of images"]), "gradients flow through the predictions only"
    assert np.any(out["gradient of a weight"]), "the model must learn"


@check("weights_of_terms")
def the_difference_is_the_loss_on_what_stays(out, ref):
    for run in out["runs"]:
        n, k = run["sizes"]
        keep, forget = (np.mean(x) for x in run["terms"])
        assert np.allclose(run["losses"], [n / (n - k) * keep, k / (n - k) * forget])
        assert np.isclose(run["plain"], (n * keep - k * forget) / (n - k))
        assert np.isclose(run["strong"], (n * keep - 3.5 * k * forget) / (n - k))
    assert out["refused"] == [BAD] * 7
    assert out["accepted"] == [GOOD] * 3


@check("gradients_that_are_balanced")
def the_subtracted_gradient_has_the_wanted_length(out, ref):
    for run in out:
        down = np.concatenate([x.ravel() for x in run["down"]])
        up = np.concatenate([x.ravel() for x in run["up"]])
        length = np.linalg.norm(up)
        scale = run["fraction"] * np.linalg.norm(down) / length if length else 0
        assert np.isclose(run["superfactor"], scale - 1, atol=1e-9), "wrong superfactor"
        assert run["kind"] == "float"
        first, frozen, second, unused = run["gradients"]
        made = np.concatenate([first.ravel(), second.ravel()])
        assert np.allclose(made, down - scale * up), "wrong gradient"
        assert np.all(unused == 0) and np.all(frozen == 7)
        if length:
            assert np.isclose(np.linalg.norm(made - down), run["fraction"] * np.linalg.norm(down))


@check("gradients_that_are_refused")
def odd_fractions_are_value_errors(out, ref):
    assert out["refused"] == [BAD] * 5
    assert out["accepted"] == [GOOD] * 5
    assert out["sizes"] == [BAD] * 2 and out["untrained"] == [BAD] * 2
    assert out["exploded"] == [[BAD, True, True]] * 6


@check("batches_to_unlearn")
def batches_hold_images_of_the_right_sets(out, ref):
    forget = set(out["forget"].tolist())
    for size, (kept, forgotten) in zip((4, 1, 40), out["batches"]):
        assert kept.shape == forgotten.shape == (size, 2, 2)
        assert set(np.floor(forgotten).ravel().astype(int)) <= forget
    assert not set(np.floor(out["batches"][2][0]).ravel().astype(int)) <= forget
    assert np.all(np.floor(out["single"][1]) == 1)
    assert set(np.floor(out["most"][1]).ravel().astype(int)) <= {0, 2, 3}


@check("batches_that_are_refused")
def odd_unlearning_sets_are_value_errors(out, ref):
    assert out["count"] == [BAD] * 3 and out["twice"] == [BAD] * 2
    assert out["range"] == out["accepted"][:0] + [BAD] * 5
    assert out["accepted"] == [GOOD] * 5


@check("models_that_unlearn")
def averages_follow_the_model(out, ref):
    runs, start = out["runs"], out["start"]
    for name, run in runs.items():
        count = {"one": 1, "none": 0, "frozen average": 1}.get(name, 2)
        assert len(run["superfactors"]) == len(run["norms"]) == count
        assert not run["training"] and run["apart"]
    for before, model, mean in zip(start, runs["one"]["model"], runs["one"]["average"]):
        assert np.allclose(mean, 0.995 * before + 0.005 * model)
    for before, model, mean in zip(start, runs["none"]["model"], runs["none"]["average"]):
        assert np.array_equal(mean, before) and np.array_equal(model, before)
    for before, mean in zip(start, runs["frozen average"]["average"]):
        assert np.allclose(mean, before)
    for model, mean in zip(runs["decayed"]["model"], runs["decayed"]["average"]):
        assert np.allclose(mean, model)
    assert runs["around the kept"]["superfactors"] == [-1.0] * 2
    assert out["kinds"] == ["float", "float"] and out["single"] == "torch.float32"


@check("images_denoised_again")
def reconstructions_go_down_in_strides(out, ref):
    for name, run in out["runs"].items():
        start, stride = map(int, name.split(" by "))
        times = [x.tolist() for x in run["timesteps"]]
        assert times == [[t] * 3 for t in range(start, -1, -stride)], "wrong timesteps"
        assert not run["graph"]
    for found in out["perfect"]:
        assert np.allclose(found, out["images"], atol=1e-6), "a perfect model finds the image"
    assert out["untouched"] and out["single"] == "torch.float32"
    assert out["refused"] == [BAD] * 6 and out["accepted"] == [GOOD] * 4


@check("bounds_of_likelihoods")
def bounds_are_sums_of_divergences(out, ref):
    for run in out["runs"]:
        assert [x[0] for x in run["timesteps"]] == list(range(len(run["gammas"])))
        variance = 1 - run["gammas"] ** 2
        snr = run["gammas"] ** 2 / variance
        size = run["images"][0].size
        errors = np.array([norms(x) for x in run["noise"] - run["predicted"]])
        total = 0.5 * errors[0] + 0.5 * size * np.log(2 * math.pi / snr[0])
        total = total + 0.5 * ((snr[:-1] / snr[1:] - 1)[:, None] * errors[1:]).sum(axis=0)
        prior = run["gammas"][-1] ** 2 * norms(run["images"])
        prior = prior + size * (variance[-1] - 1 - np.log(variance[-1]))
        want = (total + prior / 2) / size / math.log(2)
        assert np.allclose(run["made"], want), "not the variational bound"
        assert not run["graph"] and run["made"].dtype == np.float64
    assert out["single"] == "torch.float64"


@check("samples_near_forgotten_images")
def shares_can_be_counted(out, ref):
    for run in out["runs"]:
        data = run["data"].reshape(len(run["data"]), -1)
        near = [np.argmin(norms(data - s.ravel())) for s in run["samples"]]
        assert math.isclose(run["share"], np.mean(np.isin(near, run["forget"])), abs_tol=1e-12)
    assert out["ties"] == [0.5, 0.25, 0.0, 0.25]
    assert out["nothing"] == 0 and out["everything"] == 1 and out["kind"] == "float"
