"""Facts about the outputs that follow from the paper's equations, whatever the reference says."""

from __future__ import annotations

import numpy as np

from rcb_env.cases import check


def near(got, want, message, tolerance=1e-6):
    assert np.allclose(got, want, rtol=tolerance, atol=tolerance), message


@check("normalized_latents")
def batches_are_normalized_and_statistics_move(out, ref):
    for name, momentum, epsilon in (("default", 0.1, 1e-4), ("slow", 0.01, 0.3), ("fast", 1.0, 1e-4), ("average", 1.0, 1e-4)):
        z, run = ref[name]["z"], out[name]
        mean, variance = z.mean(axis=(0, 2, 3)), z.var(axis=(0, 2, 3))
        shape = (1, -1, 1, 1)
        want = (z - mean.reshape(shape)) / np.sqrt(variance + epsilon).reshape(shape)
        near(run["first"], want, f"{name}: normalized by the batch")
        near(run["middle"]["mean"], momentum * mean, f"{name}: running mean")
        unbiased = z.var(axis=(0, 2, 3), ddof=1)
        near(run["middle"]["variance"], 1 - momentum + momentum * unbiased, f"{name}: running variance")
        near(run["there and back"], z, f"{name}: there and back")
        assert not run["flows"] and run["untouched"]


@check("normalization_of_single_values")
def a_single_value_has_no_variance(out, ref):
    assert out["refused"] == "ValueError"
    assert out["accepted"] == [None] * 2
    assert out["shapes"] == ["ValueError"] * 5 and out["frozen shape"] == "ValueError"
    near(out["state"]["mean"], 0, "statistics must not move")
    near(out["state"]["variance"], 1, "statistics must not move")


@check("alignment_losses")
def alignment_is_a_mean_of_cosines(out, ref):
    total = 0
    for a, b in zip(ref["ours"], ref["theirs"], strict=True):
        sizes = np.linalg.norm(a, axis=2) * np.linalg.norm(b, axis=2)
        total = total - ((a * b).sum(axis=2) / sizes).mean(axis=1) / 3
    near(out["loss"], total, "loss")
    near(out["same"], -1, "equal directions")
    near(out["opposite"], 1, "opposite directions")
    assert not any(out["flows"]), "no gradient may reach the features"


@check("alignment_that_is_refused")
def bad_pairs_are_value_errors(out, ref):
    assert out == ["ValueError"] * 8 + [None]


@check("divergences")
def divergence_is_the_closed_form(out, ref):
    m, v = ref["mean"], ref["logvar"]
    near(out["kl"], 0.5 * (m**2 + np.exp(v) - 1 - v).sum(axis=(1, 2, 3)), "divergence")
    near(out["prior"], 0, "the prior itself")


@check("perceptual_distances")
def distance_compares_directions(out, ref):
    near(out["same"], 0, "the same image")
    near(out["scaled"], 0, "only directions count")
    near(out["zero"], 1, "no features have no direction", 1e-5)
    x, y = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (ref["x"], ref["y"]))
    near(out["plain"], ((x - y) ** 2).sum(axis=1).mean(axis=(1, 2)), "one layer")


@check("interpolants")
def noise_and_latents_follow_from_point_and_velocity(out, ref):
    for name, run in out.items():
        t = ref[name]["t"].reshape(-1, 1, 1, 1)
        near(run["noisy"] - t * run["velocity"], ref[name]["x"], f"{name}: latents")
        near(run["noisy"] + (1 - t) * run["velocity"], ref[name]["noise"], f"{name}: noise")
        near(run["ends"][0], ref[name]["x"], f"{name}: at t = 0")


@check("training_steps")
def updates_are_bounded_for_each_network(out, ref):
    run = out["clipped"]
    for name in ("vae", "model"):
        rows = zip(run[name], run["before"][name], strict=True)
        near(np.sqrt(sum(((a - b) ** 2).sum() for a, b in rows)), 0.01, f"{name}: update", 1e-3)
    for slow, fast in zip(run["average"], run["model"], strict=True):
        near(slow, fast, "with decay 0 the average is the model")


@check("training_steps")
def averages_follow_and_losses_are_named(out, ref):
    names = ["align_model", "align_vae", "diffusion", "kl", "perceptual", "reconstruction"]
    for run in out.values():
        assert run["names"] == names and run["kinds"] == ["float"] and run["leaf"]
        assert run["asked"]["norm"] == len(run["losses"]), "one call of the normalization a step"
        assert len(run["asked"]["model"]) == 2 * len(run["losses"]), "two calls of the model a step"
        for row in run["losses"]:
            near(row[0], row[1], "the two alignments are of one value")
    run = out["frozen"]
    for slow, before, fast in zip(run["average"], run["before"]["average"], run["model"], strict=True):
        near(slow, 0.9999 * before + 0.0001 * fast, "average")


@check("scores")
def the_score_is_minus_the_noise_over_its_size(out, ref):
    for found, t in zip(out["found"], (0.1, 0.5, 1.0), strict=True):
        near(found, -ref["noise"] / t, f"score at {t}")


@check("guided_velocities")
def guidance_doubles_the_rows_inside_the_interval(out, ref):
    for name in ("inside", "weak", "none", "low end", "high end"):
        assert [len(call["x"]) for call in out[name]["calls"]] == [6], name
        want = ref["labels"].tolist() + [3, 3, 3]
        assert out[name]["calls"][0]["labels"].tolist() == want, name
    for name in ("scale one", "early", "late"):
        assert [len(call["x"]) for call in out[name]["calls"]] == [3], name


@check("sampled_latents")
def one_step_jumps_to_the_estimate(out, ref):
    near(out["jump"], ref["wanted"], "from noise, the drift is velocity plus x")
    assert [float(t[0]) for t in out["plain"]["times"]] == [1.0, 0.7, 0.3, 0.05]
    assert out["untouched"] and not out["plain"]["gradient"]


@check("sampling_that_is_refused")
def bad_sampling_is_a_value_error(out, ref):
    assert out["refused"] == ["ValueError"] * 15
    assert out["asked"] == 0
    assert out["accepted"] == [None] * 3
