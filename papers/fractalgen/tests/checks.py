"""What must hold of the outputs, whatever the code looks like."""

from __future__ import annotations

import math

import numpy as np

from rcb_env.cases import check


def log_softmax(x):
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


@check("images_cut_and_joined")
def cutting_and_joining_are_inverse(out, ref):
    for run in out["runs"]:
        images, patches = run["images"], run["patches"]
        size = patches.shape[-1]
        columns = images.shape[3] // size
        for i in range(patches.shape[1]):
            y, x = size * (i // columns), size * (i % columns)
            assert np.array_equal(patches[:, i], images[:, :, y : y + size, x : x + size])
        assert np.array_equal(run["joined"], images)
        assert np.array_equal(run["again"], run["other"])
    bad = "ValueError"
    assert out["refused"] == [None, None, bad, bad, bad, bad, bad]


@check("outputs_and_their_neighbours")
def neighbours_stand_in_their_order(out, ref):
    for run in out:
        rows, columns = run["size"]
        grid = run["outputs"].reshape(run["outputs"].shape[0], rows, columns, -1)
        padded = np.pad(grid, ((0, 0), (1, 1), (1, 1), (0, 0)))
        for i in range(rows):
            for j in range(columns):
                around = [(1, 1), (0, 1), (1, 2), (2, 1), (1, 0)]
                want = np.stack([padded[:, i + a, j + b] for a, b in around], axis=1)
                assert np.array_equal(run["free"][:, i * columns + j], want)
                want[:, 2:4] = 0
                assert np.array_equal(run["causal"][:, i * columns + j], want)


@check("masks_from_orders")
def the_last_of_the_order_are_hidden(out, ref):
    for run in out:
        count = run["orders"].shape[1]
        for order, ratio, mask in zip(run["orders"], run["ratios"], run["mask"]):
            hidden = max(1, math.ceil(ratio * count))
            assert mask.sum() == hidden
            assert mask[order[count - hidden :]].all()
        assert np.all(run["none"].sum(axis=1) == 1) and run["all"].all() and run["too much"].all()


@check("ratios_from_uniform_numbers")
def ratios_are_quantiles(out, ref):
    def cdf(x, mean, std):
        return 0.5 * (1 + math.erf((x - mean) / (std * math.sqrt(2))))

    for name, mean, std, low, high in [
        ("default", 1.0, 0.25, 0.5, 1.0),
        ("other", 0.3, 0.7, -0.2, 0.9),
        ("high", 0.0, 2.0, 1.0, 5.0),
    ]:
        bottom, top = cdf(low, mean, std), cdf(high, mean, std)
        for u, ratio in zip(out["u"], out[name]):
            assert low <= ratio <= high
            assert math.isclose(cdf(ratio, mean, std), bottom + u * (top - bottom), abs_tol=1e-6)
    assert np.allclose(out["ends"][:2], [0.5, 1.0])
    assert out["matrix"].shape == (5, 10) and out["single"].dtype == np.float32


@check("steps_of_masked_levels")
def all_patches_are_made(out, ref):
    for (count, steps), made in zip(out["pairs"], out["counts"]):
        assert sum(made) == count and min(made) > 0 and len(made) <= steps
    assert out["refused"] == ["ValueError"] * 5 and out["accepted"] == [None] * 3


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


@check("logits_and_losses_of_pixels")
def pixel_losses_follow_from_logits(out, ref):
    for run in out:
        one, two, three = run["logits"]
        assert one.shape[1] == 1 and two.shape[1] == 2 and three.shape[1] == 3
        assert np.allclose(three[:, :2], two) and np.allclose(two[:, :1], one)
        chosen = np.take_along_axis(log_softmax(three), run["pixels"][..., None], axis=-1)
        assert np.allclose(run["loss"], -chosen[..., 0].mean(axis=-1))


@check("samples_of_pixels")
def pixels_are_drawn_by_their_numbers(out, ref):
    for run in out:
        assert run["pixels"].dtype == np.int64 and not run["first"].any()
        assert np.array_equal(run["without class"], run["second only"])
    for run in (out[0], out[3]):
        cdf = np.exp(log_softmax(run["logits"])).cumsum(axis=-1)
        assert np.array_equal(run["pixels"], (cdf <= run["uniforms"][..., None]).sum(axis=-1))


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
    assert all(run["in place"] for run in runs.values()), "averages are changed in place"
    assert np.allclose(runs["causal"]["rates"], [[0.05] * 2, [0.1] * 2, [0.1] * 2])
    assert np.allclose(runs["masked"]["rates"], 0.5)
    assert out["refused"] == ["FloatingPointError"] * 3 and out["same"] and out["finite"]
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
