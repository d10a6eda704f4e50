"""Facts about the outputs that follow from the paper's equations, whatever the reference says."""

from __future__ import annotations

import numpy as np

from rcb_env.cases import check

SIZES = (3, 2, 5)


def near(got, want, message, tolerance=1e-6):
    assert np.allclose(got, want, rtol=tolerance, atol=tolerance), message


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def columns(logits, sizes):
    return np.split(logits, np.cumsum(sizes)[:-1], axis=1)


@check("deviations_of_numerical_columns")
def roots_of_deviations_are_linear_in_time(out, ref):
    for name, low, high in (("default", 0.002, 80), ("wide", 0.1, 300), ("narrow", 0.5, 1.5)):
        run, rho = out[name], ref[name]["rho"]
        near(run["ends"][0], low, f"{name}: start")
        near(run["ends"][1], high, f"{name}: end")
        t = ref[name]["t"][:, None]
        want = low ** (1 / rho) * (1 - t) + high ** (1 / rho) * t
        near(run["sigma"] ** (1 / rho), want, f"{name}: between")


@check("survival_of_categorical_columns")
def survival_falls_from_one_to_zero(out, ref):
    near(out["linear"], np.array([[1.0], [0.75], [0.0]]).repeat(4, axis=1), "linear for k = 1")
    near(np.log(1 - out["alpha"]), np.log(ref["t"])[:, None] * ref["k"], "power of the time")


@check("draws_of_categories")
def a_category_is_where_the_cdf_passes_the_number(out, ref):
    for name, sizes in (("some", SIZES), ("one", (6,)), ("single row", (2, 7)), ("sure", (1, 4))):
        given = ref[name]
        assert out[name]["drawn"].dtype == np.int64
        for j, logits in enumerate(columns(given["logits"], sizes)):
            cdf = np.cumsum(softmax(logits), axis=1)
            before = np.concatenate([np.zeros((len(cdf), 1)), cdf], axis=1)
            drawn = out[name]["drawn"][:, j]
            rows = np.arange(len(drawn))
            u = given["uniforms"][:, j]
            assert np.all(before[rows, drawn] <= u + 1e-9), f"{name}: the category comes too late"
            assert np.all(u < cdf[rows, drawn] + 1e-9), f"{name}: the category comes too early"
        assert np.all(out[name]["none"] == 0)
        assert np.all(out[name]["all"] == np.array(sizes) - 1)
    assert np.all(out["just before"] == 0) and np.all(out["just after"] == 1), "edges are in double precision"


@check("draws_at_the_edges")
def categories_without_probability_are_not_drawn(out, ref):
    assert out.tolist() == [[1, 0], [1, 0], [3, 0], [3, 1], [4, 0]]


@check("reverse_steps_of_categories")
def only_masks_change_and_only_by_their_share(out, ref):
    masked = ref["cat"] == np.array(SIZES)
    assert out["untouched"], "the categories were changed in place"
    for name in ("found", "to data", "standing", "from noise"):
        assert np.all(out[name][~masked] == ref["cat"][~masked]), f"{name}: a category was changed"
    assert np.all(out["to data"] < np.array(SIZES)), "at s = 0 nothing is masked"
    assert np.array_equal(out["standing"], ref["cat"]), "at s = t nothing changes"
    stays = masked & (ref["stay"] < ref["share"])
    assert np.array_equal(out["found"] == np.array(SIZES), stays), "other masks should stay"
    assert np.all(out["on the edge"] < np.array(SIZES)), "strictly less stays"


@check("categorical_losses")
def the_loss_is_the_weighted_surprise_of_masks(out, ref):
    for name, sizes in (("some", SIZES), ("one", (4,)), ("single row", (2, 3))):
        given = ref[name]
        want = np.zeros(len(given["t"]))
        for j, logits in enumerate(columns(given["logits"], sizes)):
            true = softmax(logits)[np.arange(len(want)), given["cat"][:, j]]
            hidden = given["noisy"][:, j] == sizes[j]
            want += hidden * given["k"][j] / given["t"] * -np.log(true)
        near(out[name]["loss"], want, name)
        near(out[name]["open"], 0, "what is not masked costs nothing")
    near(out["blocked"], [np.log(1 + np.exp(-0.5))], "an impossible category that is not masked")
    near(out["gradients of the blocked"][0][0, :3], 0, "what is not masked has no gradient")
    near(out["gradients of the blocked"][1], [0, np.log(1 + np.exp(-0.5))], "gradient of k")
    assert np.all(out["impossible"] == np.inf), "an impossible category that is masked"
    assert np.isfinite(out["surprised"]["loss"]).all(), "the logarithm of an underflow"


@check("training_steps")
def times_are_evenly_spread(out, ref):
    t = np.sort((out["many rows"]["seen"][0]["t"] - 1e-3) / (1 - 1e-3))
    near(np.diff(t), 1 / 16, "gaps between times", 1e-5)
    assert 0 <= t[0] <= 1 / 16 + 1e-6


@check("training_steps")
def the_total_is_weighted_and_the_update_bounded(out, ref):
    for row in out["free"]["losses"]:
        near(row[0], 0.7 * row[1] + 2.5 * row[2], "total")
    run = out["clipped"]
    assert run["kinds"] == ["float"] * 3
    moved = sum(((a - b) ** 2).sum() for a, b in zip(run["parameters"], run["before"], strict=True))
    near(np.sqrt(moved), 0.01, "length of the update", 1e-3)
    run = out["default"]
    for a, b in zip(run["parameters"], run["before"], strict=True):
        assert not np.allclose(a, b, rtol=0, atol=1e-9), "network and schedules must all learn"
    assert run["untouched"], "the rows were changed in place"


@check("training_that_is_refused")
def refused_training_draws_nothing(out, ref):
    assert [row[0] for row in out] == ["ValueError"] * 7 + [None] * 2
    assert [row[1] for row in out] == [0] * 7 + [1] * 2
    assert len({float(row[2][0]) for row in out[:7]}) == 1, "nothing may be drawn"


@check("guided_predictions")
def guidance_extrapolates_targets_only(out, ref):
    logits, noise = columns(ref["logits"], SIZES), ref["noise"]
    for name, nums, cats, omega in (("some", [2], [1], 0.6), ("unordered", [3, 0], [2, 0], 1.5)):
        run, (alone_noise, alone_logits) = out[name], ref[name]["alone"]
        assert run["untouched"], "a prediction was changed in place"
        want = noise.copy()
        want[:, nums] = (1 + omega) * noise[:, nums] - omega * alone_noise
        near(run["made"]["noise"], want, f"{name}: noise")
        parts = dict(zip(cats, columns(alone_logits, [SIZES[j] for j in cats]), strict=True))
        for j, column in enumerate(columns(run["made"]["logits"], SIZES)):
            if j not in parts:
                near(column, logits[j], f"{name}: a column that is no target")
                continue
            weights = softmax(logits[j]) ** (1 + omega) / softmax(parts[j]) ** omega
            near(np.exp(column), weights / weights.sum(axis=1, keepdims=True), f"{name}: target")
    near(out["nothing"]["made"]["logits"], ref["logits"], "no targets")


@check("disturbed_rows")
def disturbing_for_no_time_changes_nothing(out, ref):
    for name in ("standing", "data"):
        near(out[name]["num"], ref["rows"]["num"], name)
        assert np.array_equal(out[name]["cat"], ref["rows"]["cat"]), name
    assert np.all(out["noise"]["cat"] == np.array(SIZES)), "at t = 1 everything is masked"
    assert np.all(out["far"]["cat"] == np.array(SIZES))


@check("reverse_steps")
def the_network_is_asked_once_and_its_noise_is_taken_away(out, ref):
    for name, t in (("some", 0.55), ("plain", 0.5), ("far", 0.9), ("bounded", 1), ("last", 0.3125)):
        run = out[name]
        assert len(run["seen"]) == 1, f"{name}: one look is enough"
        near(run["seen"][0]["t"], t, f"{name}: wrong time")
        high, low = ref[name]["sigma"]
        want = run["seen"][0]["num"] + (low - high) * ref[name]["noise"]
        near(run["num"], want, f"{name}: numerical columns")
        assert not run["gradient"]
    assert np.all(out["last"]["cat"] < np.array(SIZES)), "no masks at the end"
    assert out["untouched"], "rows were changed in place"


@check("reverse_steps_that_are_refused")
def impossible_steps_draw_nothing(out, ref):
    assert [row[0] for row in out["refused"]] == ["ValueError"] * 11
    assert [row[0] for row in out["accepted"]] == [None] * 3
    assert len({float(row[1][0]) for row in out["refused"]}) == 1, "nothing may be drawn"


@check("imputed_rows")
def known_columns_come_back_and_others_do_not_matter(out, ref):
    known = ref["known"]
    near(out["some"]["num"][:, [0, 3]], known["num"][:, [0, 3]], "kept numerical columns", 1e-12)
    assert np.array_equal(out["some"]["cat"][:, 1], known["cat"][:, 1])
    near(out["everything"]["num"], known["num"], "everything is kept", 1e-12)
    assert np.array_equal(out["everything"]["cat"], known["cat"])
    near(out["some"]["num"], out["other"]["num"], "columns that are not kept have no influence")
    for name, looks in (("some", 6), ("once", 4), ("often", 3)):
        assert len(out[name]["seen"]) == looks, f"{name}: number of steps"
        assert np.all(out[name]["cat"] < np.array(SIZES)), f"{name}: masks are left"
    assert out["untouched"], "the known rows were changed in place"


@check("imputation_that_is_refused")
def imputation_needs_steps_and_repetitions(out, ref):
    assert [row[0] for row in out] == ["ValueError"] * 5 + [None] * 2
    assert len({float(row[1][0]) for row in out[:5]}) == 1, "nothing may be drawn"
