"""What must hold for the outputs of the cases, apart from being equal to the reference's."""

from __future__ import annotations

import numpy as np

from rcb_env.cases import check

BAD, GOOD = "ValueError", None


@check("normalized_scores")
def normalized_codes_have_a_mean_square_of_one(out, ref):
    for run in out["runs"]:
        assert np.allclose((run["found"] ** 2).mean(axis=1), 1, atol=1e-2)
        assert np.all(np.sign(run["found"]) == np.sign(run["scores"]))
    assert np.all(out["zero"] == 0)
    assert out["single"].dtype == np.float32


@check("attention_of_all_kinds")
def codes_of_hidden_pairs_are_zero(out, ref):
    for run in out["runs"]:
        mask = np.broadcast_to(run["mask"], run["codes"][:, 0].shape)
        hidden = np.broadcast_to(~mask[:, None], run["codes"].shape)
        assert np.all(run["codes"][hidden] == 0), "a hidden pair has a code"
        assert np.isfinite(run["y"]).all()
        assert np.isfinite(run["gradient"]).all()
        if run["kind"] == "softmax":
            assert np.allclose(run["codes"].sum(axis=3), mask.any(axis=2)[:, None])


@check("attention_of_all_kinds")
def each_pair_runs_the_value_network_of_its_code(out, ref):
    for run in out["runs"]:
        x, codes, weights = run["x"], run["codes"], run["weights"]
        want = np.zeros_like(run["y"])
        for b in range(len(x)):
            for q in range(x.shape[1]):
                for k in range(x.shape[1]):
                    inner = np.einsum("h,hcd->cd", codes[b, :, q, k], weights["value"]) @ x[b, k]
                    if run["kind"] == "hyla":
                        outer = np.einsum("h,hcd->cd", codes[b, :, q, k], weights["out"])
                        want[b, q] += np.maximum(inner, 0) @ outer
                    else:
                        one = np.einsum(
                            "h,hco,hci->oi", codes[b, :, q, k], weights["out"], weights["value"]
                        )
                        assert np.allclose(run["matrices"][b, q, k], one)
                        want[b, q] += one @ x[b, k]
        assert np.allclose(run["y"], want), f"{run['kind']}: not the sum of the value networks"
    assert out["no_matrix"] == BAD
    assert out["shapes"] == [GOOD, GOOD] + [BAD] * 7


@check("truth_values")
def functions_follow_zadeh(out, ref):
    for run in out["runs"]:
        for x, found in zip(run["x"], run["found"]):
            values = [
                min([1.0, *(v if s > 0 else 1 - v for s, v in zip(term, x) if s)])
                for term in run["terms"]
            ]
            assert np.isclose(found, max([0.0, *values]))
    assert np.all(out["false"] == 0)
    assert np.all(out["true"] == 1)
    assert out["single"].dtype == np.float32
    assert out["refused"] == [GOOD] + [BAD] * 11


@check("regression_prompts")
def only_the_last_result_is_missing(out, ref):
    for run in out:
        assert run["untouched"]
        assert np.array_equal(run["tokens"][..., :-1], run["x"])
        assert np.all(run["tokens"][:, -1, -1] == 0)
        assert run["missing"].shape == (len(run["x"]),)


@check("compositional_splits")
def what_is_held_out_is_made_of_known_parts(out, ref):
    for run in out["runs"]:
        functions = [[tuple(part) for part in function] for function in run["terms"]]
        known = {part for index in run["known"] for part in functions[index]}
        assert len(run["held"]) == run["count"]
        assert sorted(run["known"] + run["held"]) == list(range(len(functions)))
        assert all(part in known for index in run["held"] for part in functions[index])
    assert out["refused"] == [GOOD, GOOD, BAD, BAD, BAD]
    assert out["short"] == [GOOD, BAD]


@check("rows_of_all_rules")
def rows_obey_their_rules(out, ref):
    for run in out["runs"]:
        rule, values, rows = run["rule"], run["values"], run["rows"]
        assert rows.min() >= 0
        assert rows.max() < values
        if rule <= 4:
            step = (0, 1, -1, 2, -2)[rule]
            assert np.all((np.diff(rows, axis=1) - step) % values == 0)
        elif rule <= 6:
            sign = 1 if rule == 5 else -1
            assert np.all((rows[:, 0] + sign * rows[:, 1] - rows[:, 2]) % values == 0)
        else:
            assert np.all(np.sort(rows, axis=1) == np.sort(rows[0]))
            assert np.array_equal(rows[1], rows[0][[1, 2, 0]])
    assert out["refused"] == [BAD, GOOD, GOOD, BAD, BAD]


@check("puzzles")
def panels_are_one_hot_and_the_last_is_blank(out, ref):
    for run in out["runs"]:
        tokens = run["tokens"].reshape(9, -1, run["values"])
        assert np.all(tokens[:8].sum(axis=2) == 1)
        assert np.all(tokens[8] == 0)
        assert run["solution"].dtype == np.int64
        for feature, rule in enumerate(run["rules"]):
            if rule == 0:
                row = [int(np.argmax(run["orders"][c] == feature)) for c in range(3)]
                first = tokens[6, row[0]].argmax()
                assert tokens[7, row[1]].argmax() == first
                assert run["solution"][row[2]] == first, "a constant feature changes"
    assert out["refused"] == [GOOD] + [BAD] * 7


@check("blocks_and_transformers")
def the_future_has_no_influence(out, ref):
    for run in out.values():
        assert np.allclose(run["free"][:, -1], run["causal"][:, -1])
        assert run["codes"].shape == (2, 3, 6, 2)
        assert run["outputs"].shape == (2, 3)


@check("puzzle_losses")
def a_puzzle_is_right_if_all_features_are(out, ref):
    for run in out["runs"]:
        solutions = run["solutions"]
        logits = run["outputs"].reshape(*solutions.shape, -1)
        right = (logits.argmax(axis=2) == solutions).all(axis=1)
        assert np.isclose(run["accuracy"], right.mean())
        powers = np.exp(logits)
        chosen = np.take_along_axis(powers, solutions[..., None], 2)[..., 0] / powers.sum(axis=2)
        assert np.isclose(run["loss"], -np.log(chosen).mean())
    assert np.isclose(out["sure"][1], 0.8)


@check("learning_rates")
def the_rate_rises_to_the_peak_and_falls_to_zero(out, ref):
    warm, peak = out["warm"], out["peak"]
    assert np.allclose(warm[:5], peak * np.array([0.25, 0.5, 0.75, 1, 1]))
    assert np.isclose(warm[12], peak / 2)
    assert np.allclose(warm[20:], 0)
    assert np.all(np.diff(warm[4:21]) < 0)
    assert np.isclose(out["cold"][0], peak)
    assert out["refused"] == [GOOD] + [BAD] * 5


@check("steps_of_training")
def training_lowers_the_loss_and_tells_the_norm(out, ref):
    for run in out[:-1]:
        losses = [loss for loss, _ in run["told"]]
        norm = np.sqrt(sum(np.square(g).sum() for g in run["first_gradients"]))
        assert np.isclose(run["told"][0][1], norm), "not the norm before clipping"
        assert losses[0] > losses[-1]
        assert all(run["fields"])
    assert out[-1]["told"] == [0.0, 0.0]
