"""What must hold of the outputs, whatever the code looks like."""

from __future__ import annotations

import math

import numpy as np

from rcb_env.cases import check


def log_softmax(x):
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


@check("guided_draws")
def draws_are_where_the_cdf_passes(out, ref):
    for run in out["runs"]:
        for name, temperature, guidance in [("plain", 1, 1), ("hot", 5, 1), ("strong", 1, 4), ("none", 2, 0)]:
            logits = run["logits"][0]
            if len(run["logits"]) == 2:
                logits = (1 - guidance) * run["logits"][1] + guidance * logits
            cdf = np.exp(log_softmax(logits / temperature)).cumsum(axis=-1)
            assert np.array_equal(run[name], (cdf <= run["u"][:, None]).sum(axis=-1)), name
        assert not run["least"].any()
    assert [int(value[0]) for value in out["halves"]] == [1, 1, 3, 3]
    assert out["refused"] == ["ValueError"] * 4 + [None] * 2


@check("conditions_of_both_kinds_of_levels")
def conditions_know_what_they_may(out, ref):
    for run in out:
        scaled = 2 * run["patches"] / (run["values"] - 1) - 1
        flat = scaled.reshape(*scaled.shape[:2], -1)
        assert np.allclose(run["tokens"], flat @ run["weight"].T + run["bias"])
        assert np.allclose(run["causal"], run["last changed"]), "the last patch has leaked"
        assert np.allclose(run["masked"], run["hidden changed"]), "a hidden patch has leaked"
        assert run["causal"].shape == (*scaled.shape[:2], 5, 8) == run["masked"].shape
        assert run["single"].dtype == np.float32


@check("losses_of_fractals")
def fractal_losses_are_near_chance(out, ref):
    for kinds, run in out.items():
        assert run["loss"].shape == (3,) and np.all(run["loss"] > 0)
        if "m" not in kinds:
            assert np.allclose(run["one"], run["loss"][:1]), "images of a batch mix"


@check("images_of_fractals")
def images_are_whole_and_guidance_of_one_is_none(out, ref):
    for run in out.values():
        assert run["plain"].shape == (2, 3, run["side"], run["side"])
        assert run["plain"].min() >= 0 and run["plain"].max() < 5
        assert np.array_equal(run["unguided"], run["plain"]), "guidance of 1 is none"


@check("what_pixels_are_told")
def guidance_grows_at_the_outermost_level(out, ref):
    for run in out:
        temperatures, strengths = run["told"].T
        assert np.allclose(temperatures, 0.7)
        assert np.all(np.diff(strengths) >= -1e-6), "guidance must not fall"
        assert np.isclose(strengths[-1], run["strength"], atol=1e-5)


@check("small_things")
def labels_are_dropped_and_bits_counted(out, ref):
    for name, rate in [("default", 0.1), ("often", 0.6), ("never", 0.0)]:
        assert np.array_equal(out[name], np.where(out["uniforms"] < rate, 3, out["labels"]))
    assert np.isclose(out["bits"], out["nats"].mean() / math.log(2))
    assert out["edge"].tolist() == [3, out["labels"][1]]


@check("steps_of_training")
def training_warms_up_and_refuses_nonsense(out, ref):
    runs = out["runs"]
    assert np.allclose(runs["causal"]["rates"], [[0.05] * 2, [0.1] * 2, [0.1] * 2])
    assert np.allclose(runs["masked"]["rates"], 0.5)
    assert out["refused"] == ["FloatingPointError"] * 2 and out["same"] and out["finite"]
    assert np.allclose(out["rates"], runs["long"]["rates"][-1])


@check("images_of_many_steps")
def images_hold_values_of_their_range(out, ref):
    assert out["guided"].shape == out["weak"].shape == (3, 3, 4, 4)
    assert out["inner"].shape == (3, 3, 2, 2)
    for image in out.values():
        assert image.dtype == np.int64 and image.min() >= 0 and image.max() < 5


@check("conditions_of_both_kinds_of_levels")
def neighbours_are_zero_where_there_are_none(out, ref):
    for run in out:
        assert not run["causal"][:, :, 2:4].any(), "patches to the right and below are not made yet"
        for name in ("causal", "masked"):
            assert not run[name][:, 0, [1, 4]].any(), "nothing is above and left of the first patch"


@check("steps_of_training")
def averages_are_between_old_and_new(out, ref):
    for run in out["runs"].values():
        assert len(run["losses"]) == 3 and all(np.isfinite(loss) for loss in run["losses"])
        assert run["averages"].keys() == run["parameters"].keys()
