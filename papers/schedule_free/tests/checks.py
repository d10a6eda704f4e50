"""Unit tests on the outputs of the cases: closed forms, properties and edge cases.

`out` is what the candidate's code gave, `ref` what the reference gave for the same inputs. Inputs that a check needs
are taken from `ref`, so a check never depends on what the candidate says its inputs were.
"""

from __future__ import annotations

import math

import numpy as np

from rcb_env.cases import check

SETTINGS = {
    "lr": 1.0,
    "beta": 0.9,
    "weight_decay": 0.0,
    "decay_at": "y",
    "warmup_steps": 0,
    "r": 0.0,
    "weight_power": 2.0,
}


def same(got, want, message, tolerance=1e-7):
    assert np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=False), message


# --- weighting ----------------------------------------------------------------------------------


@check("warm_up_factors")
def warm_up_rises_in_equal_parts_and_then_stays(out, ref):
    same(out["ten"], [min(t / 10, 1.0) for t in range(1, 14)], "warm-up over ten steps")
    same(out["two"], [0.5, 1.0, 1.0], "warm-up over two steps")
    assert out["one"] == [1.0, 1.0, 1.0], "a warm-up of one step has full size at once"


@check("warm_up_factors")
def without_warm_up_every_step_has_full_size(out, ref):
    assert out["none"] == [1.0, 1.0, 1.0], "no warm-up must give the factor 1"


@check("warm_up_factors")
def impossible_steps_are_refused(out, ref):
    assert out["bad"] == ["ValueError"] * 6, "a bad step or warm-up must raise ValueError"


@check("coefficients_over_many_steps")
def coefficients_are_shares_of_the_sum_of_the_weights(out, ref):
    for run, wanted in zip(out, ref, strict=True):
        total = 0.0
        for t, row in enumerate(run["rows"], 1):
            weight = t ** wanted["r"] * max(wanted["lrs"][:t]) ** wanted["power"]
            total += weight
            same(row["c"], weight / total, f"c of step {t}", 1e-9)
            same(row["weight_sum"], total, f"sum of the weights after step {t}", 1e-9)


@check("coefficients_over_many_steps")
def equal_weights_give_one_over_t(out, ref):
    uniform = [run for run, wanted in zip(out, ref, strict=True) if wanted["r"] == wanted["power"]]
    assert len(uniform) == 1
    for t, row in enumerate(uniform[0]["rows"], 1):
        same(row["c"], 1 / t, "the coefficients of a uniform average are 1 / t", 1e-9)


@check("coefficients_over_many_steps")
def the_largest_step_is_kept_and_the_old_record_is_not_changed(out, ref):
    for run, wanted in zip(out, ref, strict=True):
        for t, row in enumerate(run["rows"], 1):
            assert row["step"] == t, "steps are counted one by one"
            assert row["lr_max"] == max(wanted["lrs"][:t]), "the largest step size so far is kept"
            assert row["untouched"], "the old record must not change"


@check("coefficients_of_steps_without_length")
def nothing_is_averaged_before_the_first_step_with_length(out, ref):
    squared = np.asarray(out["squared"])
    assert np.isfinite(squared).all(), "steps of size zero must not divide by zero"
    same(squared[:3, 0], [0, 0, 1], "c is 0 until the first step with length, and then 1")
    same(squared[3:, 0], [1 / 2, 1 / 3, 4 / 4.75], "lowering the step size keeps the weight")
    same(np.asarray(out["uniform"])[:, 0], [1 / t for t in range(1, 7)], "power 0 counts all steps")


# --- points -------------------------------------------------------------------------------------


@check("the_average_from_y_and_z")
def recovering_the_average_undoes_the_interpolation(out, ref):
    for run, wanted in zip(out, ref, strict=True):
        same(run["got"], wanted["x"], "the recovered x is not the x that y was made from", 1e-4)
        assert run["untouched"], "y and z must not change"


@check("the_average_from_y_and_z")
def the_average_lies_beyond_y(out, ref):
    betas = (0.9, 0.5, 1.0, 0.25, 1)
    for run, beta in zip(out, betas, strict=True):
        same(run["matrix"], np.full((2, 3), 1 / beta), "y = 1 and z = 0 have x = 1 / beta", 1e-5)
        assert run["double"].dtype == np.float64, "the dtype must stay"


# --- optimisers ---------------------------------------------------------------------------------


def simulate(run, defaults, direction):
    """Three sequences in plain numpy, with y kept by the recursion that needs no x."""
    s = {**defaults, **run["setting"]}
    rows = []
    z = [np.array(p) for p in run["start"]]
    y = [np.array(p) for p in run["start"]]
    memory = [{} for _ in y]
    lr_max = total = 0.0
    for t, _ in enumerate(run["seen"], 1):
        lr = s["lr"] * (min(1.0, t / s["warmup_steps"]) if s["warmup_steps"] else 1.0)
        lr_max = max(lr_max, lr)
        weight = t ** s["r"] * lr_max ** s["weight_power"]
        total += weight
        c = weight / total if total else 0.0
        for i, target in enumerate(run["targets"]):
            d = direction((y[i] - target) ** 3, memory[i], t, s)
            d = d + s["weight_decay"] * (y[i] if s["decay_at"] == "y" else z[i])
            slow = 1 - s["beta"] + s["beta"] * c
            y[i], z[i] = (1 - c) * y[i] + c * z[i] - lr * slow * d, z[i] - lr * d
        x = [(b - (1 - s["beta"]) * a) / s["beta"] for a, b in zip(z, y, strict=True)]
        rows.append(([np.array(v) for v in y], [np.array(v) for v in z], x, total))
    return rows


def follows(out, ref, defaults, direction):
    for run, wanted in zip(out, ref, strict=True):
        expected = simulate(wanted, defaults, direction)
        for t, (row, (y, z, x, total)) in enumerate(zip(run["seen"], expected, strict=True), 1):
            (group,) = row["train"]
            for i in range(len(y)):
                same(group["p"][i], y[i], f"y after step {t} with {wanted['setting']}", 1e-6)
                same(group["z"][i], z[i], f"z after step {t} with {wanted['setting']}", 1e-6)
                same(row["x"][i], x[i], f"x after step {t} with {wanted['setting']}", 1e-6)
            same(group["weight_sum"], total, f"sum of the weights after step {t}")
            assert group["step"] == t, "the group counts its steps"
            assert row["returned"] is None, "a step without a closure returns None"


@check("sgd_with_all_settings")
def sgd_follows_the_recursion_without_x(out, ref):
    follows(out, ref, SETTINGS, lambda grad, memory, t, s: grad)


@check("sgd_with_all_settings")
def the_first_step_moves_the_average_onto_z(out, ref):
    for run in out[:4]:
        row = run["seen"][0]
        for i, z in enumerate(row["train"][0]["z"]):
            same(row["x"][i], z, "c of the first step is 1, so x = z")


@check("sgd_with_all_settings")
def steps_of_size_zero_move_nothing(out, ref):
    for row in out[4]["seen"]:
        for i, start in enumerate(ref[4]["start"]):
            for place in (row["x"][i], row["train"][0]["p"][i], row["train"][0]["z"][i]):
                same(place, start, "with lr = 0 all points stay at the start")


@check("adamw_with_all_settings")
def adamw_follows_the_recursion_without_x(out, ref):
    def direction(grad, memory, t, s):
        memory["v"] = s["beta2"] * memory.get("v", 0.0) + (1 - s["beta2"]) * grad**2
        return grad / (np.sqrt(memory["v"] / (1 - s["beta2"] ** t)) + s["eps"])

    follows(out, ref, {**SETTINGS, "lr": 0.0025, "beta2": 0.999, "eps": 1e-8}, direction)


@check("adam_directions")
def directions_come_from_the_mean_of_the_squares(out, ref):
    for run, wanted in zip(out["runs"], ref["runs"], strict=True):
        beta2, squares = wanted["beta2"], []
        for k, row in enumerate(run["rows"], 1):
            grad = np.asarray(wanted["rows"][k - 1]["grad"], dtype=np.float64)
            squares.append(grad**2)
            shares = np.array([(1 - beta2) * beta2 ** (k - 1 - j) for j in range(k)])
            v = np.tensordot(shares, np.array(squares), 1)
            same(row["v"], v, f"v after {k} gradients", 1e-5)
            want = grad / (np.sqrt(v / shares.sum()) + wanted["eps"])
            same(row["direction"], want, f"direction of gradient {k}", 1e-4)
            assert row["updates"] == k, "the gradients are counted"
            assert row["untouched"], "the gradient must not change"


@check("adam_directions")
def a_first_gradient_gives_its_signs_and_no_gradient_gives_zero(out, ref):
    same(out["first"], [1.0, -1.0], "the first direction is the sign of the gradient", 1e-5)
    same(out["still"], [0.0, 0.0], "the direction of a zero gradient is zero")


@check("float32_parameters_keep_their_dtype")
def everything_stays_float32(out, ref):
    for rows in out.values():
        for row in rows:
            for values in (row["x"], row["train"][0]["p"], row["train"][0]["z"]):
                assert all(v.dtype == np.float32 for v in values), "float32 parameters changed dtype"


@check("several_groups_with_their_own_settings")
def a_late_group_counts_its_own_steps(out, ref):
    for rows in out.values():
        assert [[g["step"] for g in row["train"]] for row in rows] == [
            [1, 1],
            [2, 2],
            [3, 3, 1],
            [4, 4, 2],
            [5, 5, 3],
        ], "each group counts its own steps"


@check("parameters_without_a_gradient_wait")
def a_parameter_without_a_gradient_keeps_its_place(out, ref):
    for seen in out.values():
        first, third = seen[0]["train"][0], seen[4]["train"][0]
        same(third["p"][1], first["p"][1], "a parameter without gradients must not move")
        assert seen[4]["known"] == [True, False, True], "no state without a gradient"
        assert seen[5]["known"] == [True, False, True], "switching modes must not make state"
        assert seen[6]["known"] == [True, True, True], "the first gradient begins the state"
        assert first["step"] == 1 and third["step"] == 3, "the group counts every step"


@check("parameters_without_a_gradient_wait")
def second_moments_count_the_gradients_of_their_parameter(out, ref):
    last = out["ScheduleFreeAdamW"][6]["train"][0]
    assert last["updates"] == [3, 1, 3], "bias correction counts the gradients of each parameter"


@check("switching_between_x_and_y")
def switching_twice_is_harmless_and_there_and_back_is_the_same(out, ref):
    seen = [state[0] for state in out["seen"]]
    for i in range(2):
        for there in (seen[1], seen[2]):
            same(there["p"][i], seen[0]["p"][i], "before the first step x = y")
        same(seen[5]["p"][i], seen[4]["p"][i], "eval() twice is like once")
        same(seen[6]["p"][i], seen[3]["p"][i], "eval() and train() give y back")
        same(seen[7]["p"][i], seen[6]["p"][i], "train() twice is like once")
        same(seen[8]["p"][i], seen[4]["p"][i], "x is the same every time")
        assert not np.allclose(seen[3]["p"][i], seen[4]["p"][i]), "x and y differ after steps"
        for state in seen[4:9]:
            same(state["z"][i], seen[3]["z"][i], "switching must not move z")
    assert out["modes"] == [True, False, False, True, True, False], "training tells the mode"


@check("switching_between_x_and_y")
def y_lies_between_z_and_x(out, ref):
    at_y, at_x = out["seen"][3][0], out["seen"][4][0]
    for i in range(2):
        want = 0.25 * at_y["z"][i] + 0.75 * at_x["p"][i]
        same(at_y["p"][i], want, "y must be (1 - beta) z + beta x")


@check("switching_between_x_and_y")
def a_step_at_x_is_refused_and_changes_nothing(out, ref):
    assert out["errors"] == ["RuntimeError", "RuntimeError"], "step() at x must raise RuntimeError"
    assert out["closure_called"] == 0, "the closure must not be called at x"
    before, after = out["seen"][8][0], out["seen"][9][0]
    assert after["step"] == before["step"], "a refused step must not be counted"
    for i in range(2):
        same(after["p"][i], before["p"][i], "a refused step must not move anything")
    assert out["same_parameters"] and all(out["requires_grad"]), "parameters change in place"


@check("groups_in_different_modes")
def one_group_at_x_is_enough_to_refuse_the_step(out, ref):
    error, groups = out["mixed"]
    assert error == "RuntimeError", "a step with a group at x must raise RuntimeError"
    assert [g["training"] for g in groups] == [False, False, True]
    assert [g["step"] for g in groups] == [2, 2, 0], "a refused step must not be counted"
    assert [g["training"] for g in out["all_at_x"][1]] == [False] * 3, "eval() is for all groups"
    assert [g["training"] for g in out["after"]] == [True] * 3, "train() is for all groups"


@check("a_closure_computes_the_loss_at_y")
def the_closure_is_called_once_with_gradients_and_its_loss_comes_back(out, ref):
    for run in out.values():
        assert run["calls"] == [True, True, True], "one call per step, with gradients enabled"
        for row in run["rows"]:
            same(row["loss"], row["before"], "the loss is that of y before the step")


@check("a_saved_run_goes_on_as_if_nothing_had_happened")
def a_resumed_run_is_the_run_that_went_on(out, ref):
    for run in out.values():
        for one, other in zip(run["gone_on"], run["resumed"], strict=True):
            (a,), (b,) = one["train"], other["train"]
            assert a["step"] == b["step"] and a["updates"] == b["updates"], "the counts are saved"
            for i in range(len(a["p"])):
                same(b["p"][i], a["p"][i], "y of the resumed run")
                same(b["z"][i], a["z"][i], "z of the resumed run")
                same(other["x"][i], one["x"][i], "x of the resumed run")
        assert run["loaded"][0]["training"] is False, "the mode is saved"


# --- the online-to-batch view ---------------------------------------------------------------------


@check("matrices_of_the_averages")
def rows_are_the_weighted_means(out, ref):
    for run, wanted in zip(out["runs"], ref["runs"], strict=True):
        w = np.asarray(wanted["w"], dtype=np.float64)
        beta = np.broadcast_to(np.asarray(wanted["beta"], dtype=np.float64), w.shape)
        for t in range(w.size):
            row = np.zeros(w.size)
            row[: t + 1] = w[: t + 1] / w[: t + 1].sum()
            same(run["x"][t], row, f"row {t} of X")
            row *= beta[t]
            row[t] += 1 - beta[t]
            same(run["y"][t], row, f"row {t} of Y")


@check("matrices_of_the_averages")
def rows_sum_to_one_in_float64(out, ref):
    for run in out["runs"]:
        for name in ("x", "y"):
            assert run[name].dtype == np.float64, f"{name} must be float64"
            same(run[name].sum(axis=1), 1.0, f"rows of {name} must sum to one")
            assert (np.triu(run[name], 1) == 0).all(), f"{name} must not look ahead"


@check("arguments_that_make_no_average")
def bad_weights_and_shares_are_refused(out, ref):
    assert out == ["ValueError"] * 13, "bad weights or shares must raise ValueError"


@check("responses_to_gradients")
def the_response_reproduces_the_points(out, ref):
    for run, wanted in zip(out, ref, strict=True):
        z = np.concatenate([[2.0], 2.0 - np.cumsum(wanted["lrs"] * wanted["gradients"])])[:-1]
        got = 2.0 - run["response"] @ wanted["gradients"]
        same(got, wanted["matrix"] @ z, "the points from the gradients")
        assert (np.triu(run["response"]) == 0).all(), "a gradient cannot move its own point"
        assert run["untouched"], "the matrix must not change"


# --- baselines ------------------------------------------------------------------------------------


@check("primal_averaging_of_a_nonlinear_gradient")
def heavy_ball_is_the_average_of_its_hidden_z(out, ref):
    for run, wanted in zip(out["runs"], ref["runs"], strict=True):
        w, z = wanted["weights"], wanted["start"]
        mean, total, points = z, w[0], [z]
        for t, lr in enumerate(wanted["lrs"]):
            z = z - lr * np.tanh(mean - wanted["target"])
            total += w[t + 1]
            mean = mean + w[t + 1] / total * (z - mean)
            points.append(mean)
        same(run["x"], np.stack(points), "x of primal averaging")


@check("primal_averaging_of_a_nonlinear_gradient")
def gradients_are_taken_once_at_every_average_but_the_last(out, ref):
    for run in out["runs"]:
        assert len(run["asked"]) == len(run["x"]) - 1, "one gradient per step"
        for asked, x in zip(run["asked"], run["x"], strict=False):
            same(asked, x, "the gradient is taken at x")
        assert run["untouched"], "the start must not change"


@check("primal_averaging_of_a_nonlinear_gradient")
def no_step_returns_the_start_as_float64(out, ref):
    assert out["nothing"].shape == (1, 2) and out["nothing"].dtype == np.float64
    same(out["nothing"], [[2.0, 3.0]], "without steps only the start is returned")


@check("weights_that_do_not_fit_the_steps")
def only_one_positive_weight_more_than_steps_is_accepted(out, ref):
    assert out == ["ValueError"] * 6 + [None], "weights that do not fit must raise ValueError"


# --- training -------------------------------------------------------------------------------------


@check("statistics_of_batch_norm")
def the_first_layer_has_the_mean_over_the_batches(out, ref):
    for name, run in out.items():
        inputs = ref[name]["inputs_of_the_first"]
        mean = np.mean([b.mean(axis=0) for b in inputs], axis=0)
        var = np.mean([b.var(axis=0, ddof=1) for b in inputs], axis=0)
        same(run["buffers"]["1.running_mean"], mean, f"running mean ({name})")
        same(run["buffers"]["1.running_var"], var, f"running variance ({name})")
        for layer in ("1", "5"):
            count = int(run["buffers"][f"{layer}.num_batches_tracked"])
            assert count == 3, "three batches are counted, and none from before"


@check("statistics_of_batch_norm")
def modes_and_momenta_are_given_back(out, ref):
    assert out["training"]["modes"] == [True] * 8, "a model in training stays in training"
    assert out["evaluating"]["modes"] == [False] * 8, "a model in evaluation stays there"
    assert out["mixed"]["modes"] == [True, True, False, True, True, False, True, True]
    for name, run in out.items():
        assert len(run["momenta"]) == 2 and run["momenta"][1] is None, "momenta are given back"
        assert math.isclose(run["momenta"][0], 0.3), "momenta are given back"
        assert run["returned"] is None and all(run["grads"]), "only statistics are computed"
        for key, value in run["parameters"].items():
            same(value, ref[name]["parameters"][key], f"the parameter {key} must not change")


@check("batch_norm_when_something_is_wrong")
def no_batches_change_nothing_and_a_broken_model_gets_its_modes_back(out, ref):
    assert out["errors"] == ["ValueError", "RuntimeError"], "both errors must reach the caller"
    for name in ("after_none", "after_broken"):
        assert out[name]["modes"] == [True, True, True, True, False, True, True, True], name
        assert math.isclose(out[name]["momenta"][0], 0.3) and out[name]["momenta"][1] is None, name
    count = int(out["after_none"]["buffers"]["1.num_batches_tracked"])
    assert count == 7, "without batches the old statistics stay"


@check("batch_norm_when_something_is_wrong")
def images_are_counted_too_and_other_models_are_left_alone(out, ref):
    count = int(out["images"]["buffers"]["0.num_batches_tracked"])
    assert count == 1, "BatchNorm2d has statistics too"
    assert out["images"]["modes"] == [False, False, False]
    assert out["grad_enabled_within"] == [False], "no gradients are recorded"
    assert out["plain_kept"] and out["plain_modes"] == [True] * 3


@check("a_whole_run_with_batch_norm")
def testing_twice_gives_the_same_and_training_helps(out, ref):
    assert math.isclose(out["tested"], out["again"], rel_tol=1e-9), "testing must change nothing"
    assert sum(out["losses"][1]) < sum(out["losses"][0]), "the second epoch must be better"
