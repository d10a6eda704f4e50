"""Facts about the outputs that follow from the paper's equations, whatever the reference says."""

from __future__ import annotations

import math

import numpy as np

from rcb_env.cases import check


def near(got, want, rtol=1e-4, atol=1e-5):
    """Whether two arrays are equal up to float32 rounding."""
    return np.shape(got) == np.shape(want) and np.allclose(got, want, rtol=rtol, atol=atol)


def slope_of_tanh(u):
    """The derivative of tanh, written so that it does not cancel."""
    return 1 / np.cosh(np.clip(u, -50, 50)) ** 2


@check("a_new_layer_has_its_initial_values")
def alpha_is_one_number_that_starts_at_the_given_value(out, ref):
    for name, value in [("default", 0.5), ("one", 0.25), ("whole", 2.0), ("first", 0.8)]:
        alpha = out[name]["values"]["alpha"]
        assert alpha.shape == (1,), f"alpha of layer {name!r} has shape {alpha.shape}"
        assert near(alpha, [value]), f"alpha of layer {name!r} does not start at its initial value"


@check("a_new_layer_has_its_initial_values")
def scale_starts_at_one_and_shift_at_zero_for_every_channel(out, ref):
    for name, channels in [("default", 6), ("one", 1), ("whole", 3), ("first", 4)]:
        values = out[name]["values"]
        assert np.array_equal(values["weight"], np.ones(channels)), "weight does not start at 1"
        assert np.array_equal(values["bias"], np.zeros(channels)), "bias does not start at 0"


@check("a_new_layer_has_its_initial_values")
def all_three_parameters_are_learnable(out, ref):
    for layer in out.values():
        assert layer["state"] == ["alpha", "bias", "weight"]
        assert all(layer["learnable"].values())


def channel_shape(run, channels_last):
    """The shape that lines a (C,) vector up with the channels of a run's input."""
    return (-1,) if channels_last else (-1,) + (1,) * (run["x"].ndim - 2)


def follows_the_equation(out, channels_last):
    """Compare every run with gamma * tanh(alpha * x) + beta."""
    for run in out["runs"]:
        shape = channel_shape(run, channels_last)
        weight, bias = out["weight"].reshape(shape), out["bias"].reshape(shape)
        want = weight * np.tanh(out["alpha"] * run["x"]) + bias
        assert near(run["y"], want), f"wrong output for input of shape {list(run['x'].shape)}"


@check("forward_with_channels_last")
def channels_last_output_follows_the_equation(out, ref):
    follows_the_equation(out, True)


@check("forward_with_channels_first")
def channels_first_output_follows_the_equation(out, ref):
    follows_the_equation(out, False)


@check("forward_with_channels_last")
def alpha_receives_a_gradient_from_every_element(out, ref):
    for run in out["runs"]:
        # (direction * weight) * slope is known through grad_x = direction * weight * slope * alpha
        want = (run["grad_x"] * run["x"]).sum() / out["alpha"]
        assert near(run["alpha"], want, 1e-3, 1e-4), "the gradient of alpha is wrong"


@check("forward_of_extreme_values")
def output_stays_within_scale_of_the_shift(out, ref):
    reach = np.abs(out["y"] - out["bias"])[:5]
    assert (reach <= out["weight"][:5] * (1 + 1e-5) + 1e-6).all(), "the output is not bounded"
    assert near(out["y"][:2], out["bias"][:2]), "zero is not mapped to the shift"
    assert np.isnan(out["y"][5]), "NaN must stay NaN"


@check("forward_refuses_a_wrong_number_of_channels")
def broadcasting_never_hides_a_wrong_number_of_channels(out, ref):
    bad = "ValueError"
    assert out["last"] == [None, bad, bad, bad, bad, bad, None]
    assert out["first"] == [None, bad, bad, bad, None, bad, bad, None]
    assert out["single"] == [None, bad]


@check("gradients_of_random_layers")
def gradients_follow_the_chain_rule(out, ref):
    alpha, weight = out["alpha"].astype(float), out["weight"].astype(float)
    for run in out["runs"]:
        upstream, x = run["upstream"].astype(float), run["x"].astype(float)
        inner = upstream * weight * slope_of_tanh(alpha * x)
        rows = tuple(range(x.ndim - 1))
        want = {
            "x": inner * alpha,
            "alpha": np.array([(inner * x).sum()]),
            "weight": (upstream * np.tanh(alpha * x)).sum(rows),
            "bias": upstream.sum(rows),
        }
        for name, value in want.items():
            assert near(run["found"][name], value), f"wrong gradient of {name}"


@check("gradients_of_random_layers")
def gradients_agree_with_central_differences(out, ref):
    alpha, weight = out["alpha"].astype(float), out["weight"].astype(float)
    for run in out["runs"]:
        upstream, x, h = run["upstream"].astype(float), run["x"].astype(float), 1e-5

        def loss(a, upstream=upstream, x=x):
            return (upstream * weight * np.tanh(a * x)).sum()

        numeric = (loss(alpha + h) - loss(alpha - h)) / (2 * h)
        assert near(run["found"]["alpha"], np.array([numeric]), 1e-3, 1e-4)


@check("gradients_of_special_inputs")
def nothing_flows_back_through_a_saturated_layer(out, ref):
    grad_x, grad_alpha, grad_weight, grad_bias = out["saturated"]
    assert near(grad_x, np.zeros((2, 3))) and near(grad_alpha, np.zeros(1))
    assert near(grad_weight, out["upstream"].sum(0)) and near(grad_bias, out["upstream"].sum(0))


@check("gradients_of_special_inputs")
def at_zero_the_layer_is_linear(out, ref):
    grad_x, grad_alpha, grad_weight, _ = out["at_zero"]
    assert near(grad_x, 0.5 * out["upstream"] * np.array([1.0, -2.0, 0.0]))
    assert not grad_alpha.any() and not grad_weight.any()


@check("gradients_of_special_inputs")
def only_equal_shapes_are_accepted(out, ref):
    assert out["errors"] == [None] + ["ValueError"] * 5


@check("every_squashing_function")
def squashing_functions_have_their_closed_forms(out, ref):
    x = out["x"].astype(float)
    want = {
        "identity": (x, np.ones_like(x)),
        "tanh": (np.tanh(x), slope_of_tanh(x)),
        "hardtanh": (np.clip(x, -1, 1), None),
        "sigmoid": (1 / (1 + np.exp(-x)), np.exp(-x) / (1 + np.exp(-x)) ** 2),
    }
    for kind, (y, slope) in want.items():
        assert near(out["runs"][kind]["y"], y), f"{kind} is wrong"
        assert slope is None or near(out["runs"][kind]["slope"], slope), f"slope of {kind} is wrong"


@check("every_squashing_function")
def an_unknown_name_is_a_value_error(out, ref):
    assert out["errors"] == [None] * 4 + ["ValueError"] * 10


@check("layers_with_exchanged_parts")
def without_a_learnable_alpha_the_input_is_not_scaled(out, ref):
    x, outputs = out["x"].astype(float), out["outputs"]
    assert near(outputs["tanh False"], 1.5 * np.tanh(x) - 0.25)
    assert near(outputs["tanh True"], 1.5 * np.tanh(0.7 * x) - 0.25)
    assert near(outputs["identity True"], 1.5 * 0.7 * x - 0.25)


def layers_of(described):
    """The DyT layers among described modules."""
    return {path: m for path, m in described.items() if m["type"] == "DynamicTanh"}


@check("conversion_of_a_mixed_model")
def no_layer_norm_and_no_rms_norm_is_left(out, ref):
    for name in ("fresh", "kept"):
        types = [module["type"] for module in out[name].values()]
        assert not {"LayerNorm", "RMSNorm", "LayerNorm2d"} & set(types), "a norm is left"
        assert types.count("DynamicTanh") == 11
        assert types.count("BatchNorm1d") == types.count("GroupNorm") == 1


@check("conversion_of_a_mixed_model")
def only_image_norms_become_channels_first(out, ref):
    for path, layer in layers_of(out["fresh"]).items():
        assert layer["settings"][2] == (path not in ("4.0", "10")), f"wrong channel position at {path}"


@check("conversion_of_a_mixed_model")
def new_layers_start_from_trained_values_only_if_asked(out, ref):
    for layer in layers_of(out["fresh"]).values():
        channels = layer["settings"][0]
        assert near(layer["values"]["alpha"], [0.5])
        assert near(layer["values"]["weight"], np.ones(channels))
        assert near(layer["values"]["bias"], np.zeros(channels))
    for path, layer in layers_of(out["kept"]).items():
        channels = layer["settings"][0]
        assert near(layer["values"]["alpha"], [0.9])
        for name, start in (("weight", np.ones(channels)), ("bias", np.zeros(channels))):
            want = out["trained"].get(f"{path}.{name}", start)
            assert near(layer["values"][name], want), f"{path}.{name} is not what it was"


@check("conversion_of_a_mixed_model")
def a_model_is_changed_in_place(out, ref):
    assert out["in_place"] == [True, True]


@check("conversion_keeps_mode_and_precision")
def mode_and_precision_are_those_of_the_old_layer(out, ref):
    mixed = out["mixed"]
    assert [mixed[i]["training"] for i in "012"] == [True, False, True]
    kinds = [mixed[i]["values"]["alpha"].dtype for i in "012"]
    assert kinds == [np.float64, np.float32, np.float16]
    assert not out["frozen"]["0"]["training"]
    assert near(out["lowest_bits"], np.full(3, 1e-9), atol=1e-14), "trained values lost precision"


@check("conversion_of_shared_skipped_and_lone_layers")
def a_shared_layer_stays_shared(out, ref):
    assert out["still_shared"] == [True, True]
    assert sorted(layers_of(out["shared"])) == ["0", "2", "3.deep"]


@check("conversion_of_shared_skipped_and_lone_layers")
def skipped_names_are_left_alone(out, ref):
    assert sorted(layers_of(out["skipping"])) == ["1.0"]
    assert sorted(layers_of(out["partly"])) == ["1", "2.0"]
    assert out["lone_skipped"]


@check("conversion_of_shared_skipped_and_lone_layers")
def a_model_that_is_itself_a_norm_is_answered_with_the_new_layer(out, ref):
    assert out["lone_type"] == "DynamicTanh"
    assert [m["type"] for m in out["old_lone_layer"].values()] == ["LayerNorm"]
    assert near(out["lone"][""]["values"]["bias"], [3.0, 3.0])


@check("conversion_refuses_norms_over_several_dimensions")
def a_refused_model_is_left_as_it_was(out, ref):
    for name in ("layer_norm", "rms_norm", "other_skipped"):
        assert out[name]["error"] == "ValueError"
        assert not layers_of(out[name]["model"]), "the model was changed before the error"
    assert out["lone"] == out["no_dimension"] == "ValueError"
    for name in ("skipped", "group"):
        assert out[name]["error"] is None and len(layers_of(out[name]["model"])) == 2


@check("alphas_of_many_widths")
def published_models_get_their_published_alphas(out, ref):
    # LLaMA 7B, 13B, 34B and 70B are 4096, 5120, 8192 and 8192 wide (places 7, 8 and 11)
    for place, attention, other in [(7, 0.8, 0.2), (8, 0.6, 0.15), (11, 0.2, 0.05)]:
        assert abs(out["attention"][place] - attention) < 0.01
        assert abs(out["other"][place] - other) < 0.003


@check("alphas_of_many_widths")
def alphas_never_grow_with_width_and_are_level_outside_the_table(out, ref):
    for role, last in (("attention", 0.2), ("other", 0.05)):
        values = out[role]
        assert all(a >= b for a, b in zip(values, values[1:], strict=False))
        assert values[:4] == [1.0] * 4, "narrow models start at 1"
        assert near(values[11:], [last] * 3), "wide models start at the last value"
    assert all(a >= b for a, b in zip(out["attention"], out["other"], strict=True))


@check("alphas_of_many_widths")
def impossible_widths_and_roles_are_refused(out, ref):
    assert out["errors"] == [None] + ["ValueError"] * 6


@check("alphas_set_in_whole_models")
def only_layers_in_front_of_attention_get_the_larger_alpha(out, ref):
    larger = {p for p, a in out["default_assigned"].items() if a > 0.3}
    assert larger == {"attention_norm", "blocks.0.attention_norm"}
    larger = {p for p, a in out["named_assigned"].items() if a > 0.3}
    assert larger == {"mixed.attention_norm.0", "mixed.q"}


@check("alphas_set_in_whole_models")
def alphas_are_really_set_and_nothing_else(out, ref):
    for name in ("default", "named", "drawn"):
        state, assigned = out[name], out[f"{name}_assigned"]
        assert state["alpha_init"] == assigned
        for path, parameters in state["parameters"].items():
            assert near(parameters["alpha"], [assigned[path]])
        assert all(near(mean, 0.375) for mean in state["untouched"].values())


@check("alphas_set_in_whole_models")
def a_model_without_layers_is_refused(out, ref):
    assert out["errors"] == ["ValueError"] * 3


@check("a_language_model")
def embeddings_start_scaled_by_the_root_of_the_width(out, ref):
    assert out["scale"].shape == () and out["scale_learnable"]
    assert near(out["scale"], np.float32(math.sqrt(6)))
    assert [float(s) for s in out["scales"]] == [1.0, float(np.float32(math.sqrt(2))), 4.0]
    assert out["scale_gradient"].shape == () and out["scale_gradient"] != 0


@check("alpha_and_spread_of_a_model")
def spread_is_that_of_all_inputs_together(out, ref):
    alpha, inverse = out["many"]["stem.1"]
    assert abs(alpha - 0.7) < 1e-6
    assert near(inverse, 1 / out["fed_to_stem"].astype(float).std())
    assert near(out["lone"][""][1], 1.0)


@check("alpha_and_spread_of_a_model")
def layers_that_were_not_called_are_left_out(out, ref):
    assert sorted(out["many"]) == ["stem.1", "twice"]
    assert out["none"] == {} and out["without"] == {}


@check("alpha_and_spread_of_a_model")
def a_single_number_has_no_spread(out, ref):
    assert out["single"][""][1] == math.inf


@check("alpha_and_spread_of_a_model")
def no_hook_is_left_behind_even_by_a_model_that_fails(out, ref):
    assert out["error"] == "RuntimeError"
    assert out["hooks"] == [0] * 4


@check("fits_of_exact_maps")
def exact_maps_are_found_again(out, ref):
    for name, fit in out["maps"].items():
        alpha, scale = map(float, name.split())
        assert near(fit[0], alpha, 1e-3) and near(fit[1], scale, 1e-3)
        assert fit[2] > 1 - 1e-6


@check("fits_of_exact_maps")
def empty_signals_and_unequal_shapes_are_refused(out, ref):
    assert out["errors"] == ["ValueError"] * 4 + [None]


@check("fits_of_noisy_maps")
def the_mirrored_map_has_the_mirrored_scale(out, ref):
    (alpha, scale, r_squared), falling = out["default"], out["falling"]
    assert near(falling[0], alpha) and near(falling[1], -scale) and near(falling[2], r_squared)


@check("fits_of_noisy_maps")
def more_search_explains_at_least_as_much(out, ref):
    assert out["default"][2] >= out["coarse"][2] - 1e-9
    assert out["default"][2] >= out["finer"][2] - 1e-9
    assert 0.14 < out["range"][0] < 4.3, "alpha is outside the range that was searched"
