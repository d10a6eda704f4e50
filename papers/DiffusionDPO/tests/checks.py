"""Facts about the outputs that follow from the paper's equations, whatever the reference says."""

from __future__ import annotations

import math

import numpy as np

from rcb_env.cases import check

BAD, GOOD = "ValueError", None


def softplus(x):
    """-log sigmoid(-x), stable."""
    return np.logaddexp(0, x)


@check("images_made_noisy")
def noisy_images_keep_signal_and_noise_in_proportion(out, ref):
    for run in out:
        clean, noise = run["clean"], run["noise"]
        alpha = run["alphas"].reshape(-1, *[1] * (clean.ndim - 1))
        want = alpha * clean + np.sqrt(1 - alpha**2) * noise
        assert np.allclose(run["noisy"], want, atol=1e-5), "not the forward process"
        assert run["noisy"].dtype == np.float32, "the dtype of the images is not kept"
        assert run["double"].dtype == np.float64
        assert run["untouched"], "inputs were changed in place"


@check("weights_of_timesteps")
def weights_follow_from_the_signal_to_noise_ratio(out, ref):
    for run in out.values():
        snr, timesteps = run["snr"], run["timesteps"]
        assert np.all(run["constant"] == 1) and np.all(run["default"] == 1)
        likelihood = (snr[:-1] / snr[1:] - 1) / 2
        likelihood = np.concatenate([likelihood[:1], likelihood])
        assert np.allclose(run["likelihood of all"], likelihood)
        assert np.allclose(run["likelihood"], likelihood[timesteps])
        assert np.allclose(run["min-snr"] * snr, np.minimum(snr, 5))
        assert np.allclose(run["min-snr 1"] * snr, np.minimum(snr, 1))
        assert np.allclose(run["min-snr 20"] * snr[timesteps], np.minimum(snr[timesteps], 20))
        assert all(x.shape == (0,) for x in run["none"])


@check("weights_that_are_refused")
def timesteps_outside_and_unknown_kinds_are_value_errors(out, ref):
    assert out["early"] == out["late"] == [BAD] * 3
    assert out["both"] == out["kinds"] == [BAD] * 4
    assert out["edges"] == out["alone"] == [GOOD] * 3


@check("losses_of_random_errors")
def the_loss_is_the_papers_equation(out, ref):
    for run in out:
        pairs = len(run["weights"])
        gap = run["policy"] - run["reference"]
        inside = run["strength"] * run["weights"] * (gap[:pairs] - gap[pairs:])
        assert np.isclose(run["loss"], softplus(inside).mean()), "not the Diffusion-DPO loss"
        slope = run["strength"] * run["weights"] / (1 + np.exp(-inside)) / pairs
        want = np.concatenate([slope, -slope])
        assert np.allclose(run["gradient"], want), "the gradient is wrong"
        assert np.isclose(run["accuracy"], np.mean(inside < 0))


@check("losses_of_random_errors")
def rewards_are_improvements_over_the_reference(out, ref):
    for run in out:
        gap = (run["reference"] - run["policy"]).reshape(2, -1).T
        want = run["strength"] * run["weights"][:, None] * gap
        assert run["rewards"].shape == want.shape, "rewards are (B, 2)"
        assert np.allclose(run["rewards"], want)
        assert run["graphs"] == [True, False, False], "only the loss has a gradient"
        assert not run.get("reference has a gradient"), "the reference must not be trained"
        assert run["dtypes"] == ["torch.float32"] * 3, "not in the dtype of the errors"


@check("losses_of_special_errors")
def special_losses_have_their_known_values(out, ref):
    assert np.isclose(out["same"]["loss"], math.log(2))
    assert [float(out[k]["accuracy"]) for k in ("same", "half", "quarter", "three quarters")] == [
        0.5,
        0.5,
        0.25,
        0.75,
    ]
    assert out["very good"]["loss"] == 0
    assert np.isclose(out["very bad"]["loss"], 18000)
    assert np.isclose(out["one bad"]["loss"], 9000 + math.log(2) / 2)
    assert np.isclose(out["weightless"]["loss"], math.log(2))


@check("losses_that_are_refused")
def bad_arguments_of_the_loss_are_value_errors(out, ref):
    assert out["beta"] == [BAD] * 4 + [GOOD] * 5
    assert out["nothing"] == out["nothing but errors"] == BAD
    assert out["policy"] == [BAD] * 7
    assert out["reference"] == [BAD] * 6
    assert out["both"] == [BAD] * 7
    assert out["accepted"] == [GOOD] * 3


@check("log_ratios_of_denoising_steps")
def expected_log_ratios_are_weighted_improvements(out, ref):
    for run in out:
        policy, reference = run["errors"]
        want = run["likelihood"] * (reference - policy)
        assert np.allclose(run["expected"], want, rtol=1e-6), "not the KL difference"
        assert np.allclose(run["swapped"], -want, rtol=1e-6), "not antisymmetric"
        assert np.allclose(run["same"], 0), "a model is as likely as itself"


@check("log_ratios_in_single_precision_and_at_the_edges")
def the_last_step_has_no_density(out, ref):
    assert out["refused"] == [BAD] * 4
    assert out["accepted"] == [GOOD] * 3
    assert out["single"].dtype == np.float32


@check("losses_of_chains")
def single_steps_bound_whole_chains(out, ref):
    for run in out["runs"]:
        gap = run["ratios"][:, :, 0] - run["ratios"][:, :, 1]
        whole = softplus(-run["beta"] * gap.sum(axis=2).mean(axis=0)).mean()
        single = softplus(-run["beta"] * gap.shape[2] * gap).mean()
        assert np.isclose(run["whole"], whole), "the loss of whole chains is wrong"
        assert np.isclose(run["single"], single), "the bound is wrong"
        assert run["whole"] <= run["single"] + 1e-12, "the bound does not hold"
    assert np.allclose(out["large"], 5000)
    assert np.allclose(out["good"], 0) and np.allclose(out["bad"], 1e4)
    assert np.allclose(out["equal"], math.log(2))


@check("batches_of_comparisons")
def winners_come_first_and_ties_are_gone(out, ref):
    kept = [i for i, label in enumerate(out["labels"]) if label != 0.5]
    made = out["all"]
    assert made["prompts"].shape == (len(kept),) and made["prompts"].dtype == np.int64
    for row, i in enumerate(kept):
        sides = out["first"][i], out["second"][i]
        winner, loser = sides if out["labels"][i] == 1 else sides[::-1]
        assert np.array_equal(made["preferred"][row], winner), "a wrong image is preferred"
        assert np.array_equal(made["rejected"][row], loser), "a wrong image is rejected"
    for name, value in made.items():
        assert np.array_equal(value[::-1], out["backwards"][name]), "the order is not kept"
    assert out["double"]["preferred"].dtype == np.float64


@check("comparisons_that_are_refused")
def odd_comparisons_are_value_errors(out, ref):
    assert out["labels"] == [BAD] * 8
    assert out["shapes"] == [BAD] * 3
    assert out["accepted"] == [GOOD] * 5
    assert out["empty"] == [BAD] * 2


@check("losses_of_batches")
def both_models_see_pairs_with_one_noise_and_timestep(out, ref):
    for run, rate in zip(out["runs"], (None, 0, 1, None)):
        assert len(run["policy"]) == len(run["reference"]) == 1, "each model is called once"
        for one, other in zip(run["policy"][0], run["reference"][0]):
            assert np.array_equal(one, other), "the models must get the same inputs"
        noisy, timesteps, prompts = run["policy"][0]
        count = len(timesteps) // 2
        assert np.array_equal(timesteps[:count], timesteps[count:]), "timesteps differ in a pair"
        assert np.array_equal(prompts[:count], prompts[count:]), "prompts differ in a pair"
        own = run["pairs"]["prompts"]
        assert np.all((prompts[:count] == own) | (prompts[:count] == 0))
        if rate is not None:
            assert np.array_equal(prompts[:count], own * (1 - rate)), "wrong prompt dropout"
        alpha = run["alphas"][:count, None, None, None]
        gap = noisy[:count] - noisy[count:]
        want = alpha * (run["pairs"]["preferred"] - run["pairs"]["rejected"])
        assert np.allclose(gap, want), "a pair must share its noise"
        assert run["spared"], "the reference got gradients"


@check("models_after_fine_tuning")
def fine_tuning_starts_at_the_reference(out, ref):
    for name, run in out["runs"].items():
        assert np.isclose(run["history"][0], math.log(2)), "the first loss is log 2"
        assert run["training"], "the policy must be in training mode"
        assert run["modes"] == [[False, False]] * 3 + [[True, True]] * 3, "wrong modes"
        groups = {"pairs of batches": 2, "all at once": 1}
        assert len(run["history"]) == groups.get(name, 3), "wrong number of updates"
    assert out["empty"] == [] and out["plain float"] == "float"
    for name, value in out["untouched"].items():
        assert np.array_equal(value, out["start"][name])


@check("models_after_fine_tuning")
def one_update_of_adam_moves_by_the_learning_rate(out, ref):
    moved = out["runs"]["all at once"]["parameters"]
    gaps = np.concatenate(
        [np.abs(moved[k] - v * (1 - 0.02 * 0.01)).ravel() for k, v in out["start"].items()]
    )
    assert np.all(gaps <= 0.02 + 1e-9), "a parameter moved too far"
    assert np.mean(np.isclose(gaps, 0.02, rtol=1e-3)) > 0.3, "no full step was made"


@check("images_that_are_sampled")
def guided_sampling_calls_without_prompts_first(out, ref):
    for run in out["found"].values():
        for times, prompts, noisy in run["calls"]:
            assert len(times) == 6 and len(set(times.tolist())) == 1
            assert np.all(prompts[:3] == 0), "the empty prompt comes first"
            assert np.array_equal(noisy[:3], noisy[3:])
        assert not run["graph"]
    assert [c[0][0] for c in out["found"]["does not end at 0"]["calls"]] == [15, 8, 3]
    assert out["small"] == "torch.float32" and out["untouched"]


@check("images_of_a_perfect_model")
def a_perfect_model_finds_the_clean_image(out, ref):
    for found in out["found"]:
        assert np.allclose(found, out["clean"], atol=1e-6), "not the clean image"


@check("rewards_of_images")
def rewards_are_antisymmetric_and_zero_for_the_reference(out, ref):
    assert np.allclose(out["found"]["default"]["rewards"], -out["backwards"])
    assert np.all(out["same"] == 0)
    for run in out["found"].values():
        assert not run["graph"] and not any(run["graphs"])
    assert out["dtype"] == "torch.float64"
