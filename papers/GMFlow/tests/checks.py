"""Facts about the outputs that follow from the paper's equations, whatever the reference says."""

from __future__ import annotations

import numpy as np

from rcb_env.cases import check


def near(got, want, message, tolerance=1e-6):
    assert np.allclose(got, want, rtol=tolerance, atol=tolerance), message


def normalized(gm, message):
    near(np.exp(gm["logweights"]).sum(axis=1), 1, f"{message}: weights do not sum to one")


def same_mixture(got, want, message, tolerance=1e-6):
    for key in ("means", "logweights", "logstd"):
        near(got[key], want[key], f"{message}: {key}", tolerance)


def mean_of(gm):
    return (np.exp(gm["logweights"]) * gm["means"]).sum(axis=1)


def log_density(gm, x):
    """The plain formula, as a sum of densities."""
    std = np.exp(gm["logstd"])
    distance = ((x[:, None] - gm["means"]) ** 2).sum(axis=2, keepdims=True)
    densities = np.exp(-distance / 2 / std**2) / (2 * np.pi * std**2) ** (x.shape[1] / 2)
    return np.log((np.exp(gm["logweights"]) * densities).sum(axis=1))[:, 0]


@check("coefficients_of_random_times")
def the_reverse_step_keeps_mean_and_variance_of_the_path(out, ref):
    t, s = ref["t"], ref["s"]
    c1, c2, c3 = out["c"]
    near(c1 * (1 - t) + c2, 1 - s, "the mean of x_s must be alpha_s x_0")
    near(c1**2 * t**2 + c3, s**2, "the variance of x_s must be sigma_s^2")


@check("coefficients_of_random_times")
def ends_of_the_reverse_step(out, ref):
    ones = np.ones(6)
    for got, want in zip(out["to data"], (0 * ones, ones, 0 * ones), strict=True):
        near(got, want, "to s = 0")
    for got, want in zip(out["standing"], (ones, 0 * ones, 0 * ones), strict=True):
        near(got, want, "s = t")
    c1, c2, c3 = out["from noise"]
    near(c1, 0, "from t = 1, x_t tells nothing")
    near(c2, 1 - ref["s"], "from t = 1")
    near(c3, ref["s"] ** 2, "from t = 1")


@check("coefficients_of_bad_times")
def impossible_steps_are_refused(out, ref):
    assert out["refused"] == ["ValueError"] * 10
    assert out["accepted"] == [None] * 4


@check("log_densities")
def log_density_is_the_plain_formula(out, ref):
    for name, run in out.items():
        near(run["density"], log_density(ref[name], ref[name]["x"]), name)
        assert np.isfinite(run["far"]).all(), "far away the density must not underflow"


@check("draws_from_mixtures")
def draws_come_from_the_chosen_component(out, ref):
    for name, run in ref.items():
        cdf = np.cumsum(np.exp(run["logweights"]), axis=1)[:, :, 0]
        for b, i, j in np.ndindex(run["uniforms"].shape):
            k = int((cdf[b, :, i, j] <= run["uniforms"][b, i, j]).sum())
            k = min(k, cdf.shape[1] - 1)
            centre = run["means"][b, k, :, i, j]
            near(out[name]["centres"][b, :, i, j], centre, f"{name}: wrong component")
            shift = np.exp(run["logstd"][b].item()) * run["noise"][b, :, i, j]
            near(out[name]["draw"][b, :, i, j], centre + shift, f"{name}: wrong deviation")


@check("draws_at_the_edges")
def components_without_weight_are_not_drawn(out, ref):
    assert out.ravel().tolist() == [1, 1, 2, 2, 4, 4, 4, 5]


@check("products_with_gaussians")
def a_product_has_the_right_density_up_to_a_constant(out, ref):
    for name, run in out.items():
        normalized(run["product"], name)
        given = ref[name]
        found = []
        for x, ratio in zip(given["x"], run["ratio"], strict=True):
            wanted = (given["linear"] * x).sum(axis=1)
            wanted = wanted - given["precision"][:, None, None] / 2 * (x**2).sum(axis=1)
            found.append(ratio - wanted)
        near(found[0], found[1], f"{name}: not the product", 1e-5)
        same_mixture(run["nothing"], given["gm"], name)


@check("products_that_do_not_exist")
def products_that_cannot_be_normalized_are_refused(out, ref):
    assert out == ["ValueError"] * 4 + [None] * 3


@check("reverse_transitions")
def transitions_at_both_ends(out, ref):
    same_mixture(out["to data"], ref["gm"], "at s = 0 it is the denoising distribution")
    near(out["standing"]["means"], np.repeat(ref["x"][:, None], 3, axis=1), "at s = t it is x_t")
    assert np.all(out["standing"]["logstd"] < -10), "at s = t there is no uncertainty"
    near(out["found"]["logweights"], ref["gm"]["logweights"], "weights must stay")
    assert out["bad"] == "ValueError"


@check("reverse_transitions")
def transitions_have_the_variance_of_the_equation(out, ref):
    t, s = ref["t"], ref["s"]
    share = (t**2 - ((1 - t) / (1 - s)) ** 2 * s**2) / t**2
    variance = share * s**2 + (share * (1 - s)) ** 2 * np.exp(2 * ref["gm"]["logstd"].ravel())
    near(np.exp(2 * out["found"]["logstd"].ravel()), variance, "variance")


@check("denoising_at_other_points")
def going_there_and_back_changes_nothing(out, ref):
    same_mixture(out["back"], ref["data"], "there and back", 1e-5)
    same_mixture(out["standing"], ref["data"], "the same point")
    near(out["same time"]["logstd"], ref["data"]["logstd"], "at the same time")
    assert out["impossible"] == "ValueError"


@check("exact_mixtures_follow_the_path")
def an_exact_prediction_stays_exact_elsewhere(out, ref):
    same_mixture(out["moved"], ref["true"], "moved", 1e-4)


@check("guided_mixtures")
def guidance_in_vain_and_of_zero(out, ref):
    for name, run in out.items():
        same_mixture(run["zero"], ref[name]["gm"], f"{name}, zero")
        for value in ("weak", "strong", "in vain"):
            normalized(run[value], name)
            assert np.all(run[value]["logstd"] < ref[name]["gm"]["logstd"]), "it must get narrower"


@check("guided_mixtures")
def a_single_gaussian_becomes_the_target(out, ref):
    given, got = ref["one"], out["one"]
    mean = mean_of(given["gm"])
    std = np.exp(given["gm"]["logstd"])
    delta = mean - mean_of(given["other"])
    size = np.sqrt((delta**2).mean(axis=(1, 2, 3), keepdims=True))
    for name, scale in (("weak", 0.2), ("strong", 0.9)):
        near(mean_of(got[name]), mean + scale * std[:, 0] * delta / size, f"{name}: mean")
        near(np.exp(2 * got[name]["logstd"]), (1 - scale**2) * std**2, f"{name}: variance")
    shift = mean_of(got["orthogonal"]) - mean
    near((shift * mean).sum(axis=(1, 2, 3)), 0, "orthogonal to the mean", 1e-5)
    near((shift**2).mean(axis=(1, 2, 3)), 0.36 * std.ravel() ** 2, "of full size", 1e-5)


@check("guidance_at_the_edges")
def guidance_refuses_bad_settings_and_survives_zeros(out, ref):
    assert out["refused"] == ["ValueError"] * 8
    assert out["accepted"] == [None] * 5
    for name in ("still", "small", "tiny"):
        assert np.isfinite(out[name]["means"]).all(), f"{name}: not finite"


@check("transition_losses")
def a_transition_to_data_is_the_likelihood_of_the_velocity(out, ref):
    for name, run in out.items():
        near(run["to data"], ref[name]["velocity"], name)
        assert run["bad"] == "ValueError"


@check("ode_samples_of_a_wavy_model")
def the_network_is_asked_once_per_step(out, ref):
    for name, times in (("one", [1]), ("fine", [1]), ("three", [1, 0.7, 0.3]), ("middle", [0.9, 0.6, 0.2][:2])):
        near(out[name]["calls"], np.repeat(np.array(times)[:, None], 3, axis=1), name)
        assert not out[name]["gradient"]
    assert out["untouched"], "the noise was changed in place"


@check("ode_samples_of_a_wavy_model")
def one_substep_is_an_euler_step(out, ref):
    near(out["one"]["x"], ref["euler"], "one step of one sub-step")


@check("ode_samples_of_an_exact_model")
def with_an_exact_network_only_substeps_count(out, ref):
    near(out["one step"], out["twelve steps"], "one step", 1e-4)
    near(out["four steps"], out["twelve steps"], "four steps", 1e-4)


@check("ode_settings_that_are_refused")
def bad_times_are_value_errors(out, ref):
    assert out["refused"] == ["ValueError"] * 12
    assert out["asked"] == 0
    assert out["accepted"] == [None] * 2


@check("training_steps")
def the_average_follows_and_labels_are_dropped(out, ref):
    for name, decay, steps in (("whole", 0.5, 1), ("short", 0.99, 1), ("clipped", 0.0, 1)):
        run = out[name]
        assert run["kind"] == "float"
        assert run["untouched"], "the labels were changed in place"
        rows = zip(run["average"], run["average before"], run["parameters"], strict=True)
        for slow, before, fast in rows:
            near(slow, decay * before + (1 - decay) * fast, f"{name}: average")
    assert (out["clipped"]["asked"][0][2] == 3).all(), "all labels are dropped"
    assert (out["short"]["asked"][0][2] == ref["short"]["labels"]).all(), "no label is dropped"


@check("training_steps")
def an_update_is_bounded_by_the_norm(out, ref):
    run = out["clipped"]
    moved = sum(((a - b) ** 2).sum() for a, b in zip(run["parameters"], run["first"], strict=True))
    near(np.sqrt(moved), 0.01, "length of the update", 1e-3)


@check("training_with_a_bad_ratio")
def a_bad_ratio_draws_nothing(out, ref):
    assert [row[0] for row in out] == ["ValueError"] * 5 + [None] * 2
    assert len({float(row[1][0]) for row in out[:5]}) == 1, "nothing may be drawn"
