"""Unit tests on the outputs of the cases, for the judge."""

from __future__ import annotations

import math

import numpy as np

from rcb_env.cases import check

BAD = "ValueError"


@check("fixed_points_of_random_slopes")
def fixed_points_are_fixed_and_attract(out, ref):
    assert out["untouched"], "the slopes were changed in place"
    assert np.allclose(out["above"], out["image"], atol=1e-12), "not a fixed point"
    assert np.all(out["above"] > 0), "the fixed point 0 is not the largest one"
    assert np.all(out["below"] == 0), "slopes up to 1 have 0 only"
    assert np.all(out["rates"] < 1), "the largest fixed point attracts"
    want = out["slopes"] / np.cosh(out["slopes"] * out["above"]) ** 2
    assert np.allclose(out["rates"], want), "wrong derivative"
    assert np.array_equal(out["rates below"], out["slopes below"])


@check("fixed_points_with_few_halvings")
def halvings_stop_in_the_middle_of_the_bracket(out, ref):
    best = out["few"][-1]
    for n, values in enumerate(out["few"]):
        steps = values[values > 0] * 2 ** (n + 1)
        assert np.array_equal(steps % 2, np.ones(len(steps))), "not in the middle of a bracket"
        assert np.all(np.abs(values - best) < 0.5**n)


@check("fixed_points_at_the_edges")
def slopes_must_be_positive(out, ref):
    assert out["one"].tolist() == [0, 0, 0]
    assert out["one, coarse"].tolist() == [0, 0, 0.5]
    assert np.allclose(out["large"], 1, atol=1e-7)
    assert out["empty"].shape == (0, 3)
    assert out["slopes"] == [BAD] * 4 + [None]
    assert out["halvings"] == [BAD] * 2 + [None] * 2


@check("paths_through_scalar_layers")
def paths_begin_at_the_start_and_end_at_the_fixed_point(out, ref):
    assert out["untouched"]
    assert out["shared"].shape == (7, 2, 3)
    assert np.array_equal(out["own"][0], out["x"])
    assert np.allclose(np.abs(out["long"]), 0.9575040240772687), "not at the fixed point of slope 2"


@check("anchors_of_several_shapes")
def every_neuron_has_one_anchor(out, ref):
    for anchors in out.values():
        assert np.all(anchors.sum(axis=1) == 1), "each row must hold a single one"
    assert np.array_equal(out["4 x 4"], np.eye(4))
    assert np.array_equal(out["4 x 8"], np.eye(8)[:4])
    assert np.array_equal(out["8 x 4"], np.vstack([np.eye(4), np.eye(4)]))
    assert out["double"].dtype == np.float64


@check("proposed_weights")
def weights_are_anchors_with_noise(out, ref):
    for name, run in out["runs"].items():
        shape, alpha = name.split(", ")
        n_out, n_in = map(int, shape.split(" x "))
        assert run["same"], "the weight itself must be returned"
        anchors = np.eye(n_in)[np.arange(n_out) % n_in]
        want = anchors + float(alpha) / math.sqrt(n_in) * run["noise"]
        assert np.allclose(run["weight"], want, atol=1e-6), f"{name}: wrong weights"
        assert run["weight"].dtype == run["noise"].dtype
    assert out["needs gradient"]


@check("weights_that_are_refused")
def bad_weights_are_value_errors(out, ref):
    assert out["shapes"] == [BAD] * 3 + [None]
    assert out["alpha"] == [BAD] * 4 + [None] * 2


@check("initialized_networks")
def networks_have_no_bias_and_weights_of_the_right_size(out, ref):
    for method in ("proposed", "xavier_normal", "xavier_uniform"):
        run = out[method]
        assert run["count"] == 4
        assert run["needs gradients"]
        assert np.all(run["nested"]["first.bias"] == 0)
        assert np.all(run["nested"]["last.bias"] == 0)
        assert np.all(run["nested"]["conv.weight"] == 7), "only linear layers are initialized"
        assert np.all(run["nested"]["block.0.bias"] == 7), "only linear layers are initialized"
    bound = math.sqrt(6 / 8)
    assert np.all(np.abs(out["xavier_uniform"]["nested"]["first.weight"]) <= bound)
    noise = out["alone"]["weight"] - np.eye(40)[np.arange(60) % 40]
    assert abs(noise.std() - 0.085 / math.sqrt(40)) < 0.0015, "wrong scale of the noise"
    assert out["refused"] == [BAD] * 3
    assert out["kept"], "a network was changed before its method was refused"
    assert out["no layers"] == [BAD, BAD, None, None]


@check("slopes_of_neurons")
def slopes_times_anchors_are_inputs(out, ref):
    for name, run in out.items():
        if name == "single":
            continue
        n_out, n_in = map(int, name.split(" x "))
        anchors = np.arange(n_out) % n_in
        inputs = run["x"] @ run["weight"].T
        assert np.allclose(run["slopes"] * run["x"][:, anchors], inputs), "wrong slopes"
        assert np.isnan(run["holes"][2]).all(), "slopes without an anchor are NaN"
        assert np.array_equal(np.isnan(run["holes"][1]), anchors == 0)
        want = 0.3 * np.sqrt((run["x"] ** 2).sum(1, keepdims=True) / run["x"] ** 2)
        assert np.allclose(run["deviation"], want), "wrong deviation"
        assert run["untouched"]


@check("statistics_of_activations")
def statistics_are_those_of_the_hidden_layers(out, ref):
    for run in out.values():
        assert run["untouched"]
        for name, low, high in [("default", 0.05, 0.95), ("own", 0.3, 0.6), ("equal", 0.5, 0.5)]:
            found = run[name]
            for i, h in enumerate(run["hidden"]):
                h = np.asarray(h)
                centred = h - h.mean()
                assert math.isclose(found["mean"][i], h.mean(), abs_tol=1e-9)
                assert math.isclose(found["std"][i], h.std(), rel_tol=1e-7)
                want = (centred**4).mean() / h.var() ** 2 - 3
                assert math.isclose(found["kurtosis"][i], want, abs_tol=1e-6)
                assert math.isclose(found["dead"][i], (abs(h) < low).mean(), abs_tol=1e-9)
                assert math.isclose(found["saturated"][i], (abs(h) > high).mean(), abs_tol=1e-9)


@check("statistics_at_the_edges")
def statistics_of_constant_layers(out, ref):
    assert out["flat"].tolist() == [0]
    assert [float(v) for v in out["flat dead"]] == [1, 0]
    assert out["full"]["saturated"].tolist() == [0, 0], "the thresholds are strict"
    assert out["full"]["dead"].tolist() == [0, 0], "the thresholds are strict"
    assert out["above"]["dead"].tolist() == [1, 1]
    assert out["refused"] == [BAD] * 4
    assert out["accepted"] == [None] * 3


@check("norms_of_gradients")
def norms_are_those_of_autograd(out, ref):
    for run in out.values():
        assert np.allclose(run["norms"], run["autograd"]), "not the norms that autograd finds"
        assert run["clean"], "gradients were left in the parameters"
        assert run["untouched"]


@check("residuals_of_formulas")
def a_front_solves_the_equation(out, ref):
    assert np.allclose(out["front"], 0, atol=1e-9), "the front is a solution"
    assert out["front"].shape == (9, 1)
    t, x = out["points"][:, :1], out["points"][:, 1:]
    c = 0.6
    u = np.sin(c * t) * x**3 + np.exp(c * x) * t**2
    u_t = c * np.cos(c * t) * x**3 + 2 * np.exp(c * x) * t
    u_x = 3 * np.sin(c * t) * x**2 + c * np.exp(c * x) * t**2
    u_xx = 6 * np.sin(c * t) * x + c * c * np.exp(c * x) * t**2
    assert np.allclose(out["ripple"], u_t + u * u_x - 0.3 * u_xx), "wrong residual"
    assert out["no gradient for points"], "points were given a gradient"
    assert out["still plain"] and out["untouched"], "points were changed"


@check("losses_of_networks")
def the_loss_is_the_sum_of_two_means(out, ref):
    data, physics = np.mean(out["data"] ** 2), np.mean(out["residual"] ** 2)
    assert math.isclose(float(out["loss"]), physics + 2.5 * data, rel_tol=1e-6)
    assert math.isclose(float(out["default"]), physics + data, rel_tol=1e-6)


@check("trainings")
def training_ends_with_the_best_parameters(out, ref):
    for name, steps in [("plain", 6), ("default rate", 2), ("none", 0), ("clipped", 5), ("wild", 12)]:
        run = out[name]
        assert len(run["losses"]) == steps + 1, f"{name}: wrong number of losses"
        best = float(run["losses"].min())
        assert math.isclose(float(run["now"]), best, rel_tol=1e-6), f"{name}: not the best"
        assert not run["recorded"]
    for name, value in out["none"]["parameters"].items():
        assert np.array_equal(value, out["start"][name])
    moved = max(
        np.abs(value - out["start"][name]).max()
        for name, value in out["default rate"]["parameters"].items()
    )
    assert moved < 0.0021, "Adam moves a parameter by at most about the rate in a step"
    assert out["plateau"]["losses"].tolist() == [1, 1, 1, 1]
    assert out["plateau"]["parameters"].tolist() == [0.4], "only a lower loss is better"
    assert len(out["exploding after 0"]["losses"]) == 1
    assert out["exploding after 0"]["parameters"].tolist() == [0.5, -0.3]
    for name in ("exploding after 1", "exploding after 5"):
        assert np.isnan(out[name]["losses"][-1])
        assert np.isfinite(out[name]["losses"][:-1]).all()
        assert np.isfinite(out[name]["parameters"]).all()


@check("trainings_that_are_refused")
def bad_settings_of_a_training_are_value_errors(out, ref):
    assert out["steps"] == [BAD, BAD, None]
    assert out["max_norm"] == [BAD] * 3 + [None] * 2
