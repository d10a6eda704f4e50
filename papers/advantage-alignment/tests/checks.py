"""What must hold for the outputs of the cases, apart from being equal to the reference's."""

from __future__ import annotations

import itertools

import numpy as np

from rcb_env.cases import check

BAD, GOOD = "ValueError", None


def softmax(logits):
    """Along the last dimension."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def other_view(view, actions):
    """What the other player sees."""
    if view == 0:
        return 0
    own, other = divmod(view - 1, actions)
    return 1 + other * actions + own


@check("advantages_from_a_critic")
def with_lambda_one_an_advantage_is_the_return_minus_the_value(out, ref):
    for run in out["runs"]:
        assert run["constant"], "advantages carry gradients"
        if run["lam"] != 1.0:
            continue
        gamma, steps = run["gamma"], run["rewards"].shape[-1]
        later = run["values"][..., -1]
        for t in reversed(range(steps)):
            later = run["rewards"][..., t] + gamma * np.where(run["dones"][..., t], 0, later)
            want = later - run["values"][..., t]
            assert np.allclose(run["found"][..., t], want), "not the return minus the value"


@check("advantages_from_a_critic")
def with_lambda_zero_it_is_one_error(out, ref):
    for run in out["runs"]:
        if run["lam"] == 0.0:
            values = run["values"]
            after = np.where(run["dones"], 0, run["gamma"] * values[..., 1:])
            assert np.allclose(run["found"], run["rewards"] + after - values[..., :-1])
    assert out["single"].dtype == np.float32
    assert out["empty"].shape == (3, 0)


@check("advantages_that_are_refused")
def bad_advantages_are_value_errors(out, ref):
    assert out["numbers"] == [GOOD, GOOD, BAD, BAD, BAD, BAD] * 2
    assert out["shapes"] == [GOOD] + [BAD] * 8


@check("pasts")
def the_past_is_a_sum_over_earlier_steps_of_the_episode(out, ref):
    for run in out["runs"]:
        assert run["untouched"], "the advantages were changed in place"
        shape = run["advantages"].shape
        rows = run["advantages"].reshape(-1, shape[-1])
        ends = np.broadcast_to(run["dones"], shape).reshape(rows.shape)
        for name, gamma, average in [
            ("sum", 0.9, False),
            ("undiscounted", 1.0, False),
            ("average", 0.9, True),
            ("plain_average", 1.0, True),
        ]:
            for row, end, found in zip(rows, ends, run[name].reshape(rows.shape)):
                for t in range(len(row)):
                    earlier = [k for k in range(t) if not end[k:t].any()]
                    want = sum(gamma ** (t - k) * row[k] for k in earlier)
                    want /= max(len(earlier), 1) if average else 1
                    assert np.isclose(found[t], want), f"{name}: wrong at step {t}"


@check("pasts")
def the_first_step_has_no_past(out, ref):
    for run in out["runs"]:
        assert np.all(run["sum"][..., 0] == 0)
        assert np.all(run["average"][..., 0] == 0)
    assert np.all(out["one"][0] == 0)


@check("alignments")
def alignment_adds_the_product_of_my_past_and_the_others_present(out, ref):
    for run in out["runs"]:
        advantages, dones = run["advantages"], run["dones"]
        assert run["untouched"], "the advantages were changed in place"
        assert np.allclose(run["none"], advantages), "without strength nothing changes"
        for name, gamma, beta in [("one", 0.9, 1.0), ("strong", 0.6, 3.5), ("named", 0.9, 2.0)]:
            past = np.zeros_like(advantages[..., 0])
            for t in range(advantages.shape[-1]):
                now = advantages[..., t]
                others = np.stack(
                    [np.delete(now, i, axis=1).sum(axis=1) for i in range(now.shape[1])], axis=1
                )
                want = now + beta * gamma * past * others
                assert np.allclose(run[name][..., t], want), f"{name}: wrong at step {t}"
                past = gamma * (past + now) * ~dones[:, t, None]


@check("alignments")
def bad_alignments_are_value_errors(out, ref):
    assert out["betas"] == [GOOD, GOOD, BAD, BAD, BAD, BAD]
    assert out["players"] == [BAD, GOOD, GOOD]


@check("quadrants")
def shares_sum_to_one_and_signs_are_told_apart(out, ref):
    assert np.isclose(out["shares"].sum(), 1)
    assert np.isclose(out["positive"][1, 1], 1)
    assert np.isclose(out["negative"][0, 1], 1)
    assert out["one"].tolist() == [[0, 0], [1, 0]]
    assert out["nothing"].tolist() == [[0, 0], [0, 0]]
    assert out["cut"].tolist() == [[0, 0], [0, 0]]
    assert out["shares"].dtype == np.float64
    assert out["coarse"].dtype == np.float32


@check("surrogates")
def the_surrogate_is_the_mean_of_the_clipped_objective(out, ref):
    for run in out["runs"]:
        mask = run["mask"]
        ratio = np.exp(run["new"] - run["old"])
        near = np.clip(ratio, 1 - run["epsilon"], 1 + run["epsilon"])
        objective = np.minimum(ratio * run["gain"], near * run["gain"])[mask]
        want = -objective.sum() / max(mask.sum(), 1)
        assert np.isclose(run["loss"], want), "wrong loss"
        assert np.all(run["gradient"][~mask] == 0), "an entry outside of the mask has a gradient"
        up = (ratio > 1 + run["epsilon"]) & (run["gain"] > 0)
        down = (ratio < 1 - run["epsilon"]) & (run["gain"] < 0)
        assert np.all(run["gradient"][up | down] == 0), "a clipped entry has a gradient"
    assert out["constants"] == [True, True], "gradients flow to what is constant"


@check("surrogates_at_the_edges")
def what_is_masked_does_not_matter(out, ref):
    for name in ("nan", "infinite", "small"):
        assert np.isfinite(out[name]["loss"])
        assert np.all(out[name]["gradient"][[1, 2, 4, 5]] == 0)
    assert out["nothing"]["loss"] == 0
    assert np.all(out["nothing"]["gradient"] == 0)


@check("surrogates_that_are_refused")
def epsilon_is_strictly_between_zero_and_one(out, ref):
    assert out == [BAD] * 6 + [GOOD] * 3


@check("exact_values")
def exact_advantages_average_to_zero(out, ref):
    for run in out["runs"]:
        actions = run["payoffs"].shape[-1]
        ours = softmax(run["first"])
        order = [other_view(v, actions) for v in range(len(ours))]
        theirs = softmax(run["second"])[order]
        mean = np.einsum("ivab,va,vb->iv", run["found"], ours, theirs)
        assert np.allclose(mean, 0, atol=1e-7), "advantages do not average to zero"
        # One step of the Bellman equation, with values read off the advantages.
        values = run["payoffs"][:, None] - run["found"]  # V(v) - gamma V(v')
        spread = values - values[:, :, :1, :1]
        assert np.allclose(spread, spread[:, :1], atol=1e-7), "the next view depends on the last"
    assert out["refused"] == [GOOD, GOOD, BAD, BAD, BAD, BAD]


@check("expected_directions")
def the_direction_is_the_mean_over_all_games(out, ref):
    for run in out["runs"]:
        actions, horizon = run["first"].shape[1], run["horizon"]
        if actions ** (2 * horizon) > 300:
            continue
        ours, theirs = softmax(run["first"]), softmax(run["second"])
        want = np.zeros_like(ours)
        moves = list(itertools.product(range(actions), repeat=2))
        for game in itertools.product(moves, repeat=horizon):
            view, chance, past, score = 0, 1.0, 0.0, np.zeros_like(ours)
            for t, (a, b) in enumerate(game):
                own, other = run["advantages"][:, view, a, b]
                weight = own + run["beta"] * run["gamma"] * past * other
                chance *= ours[view, a] * theirs[other_view(view, actions), b]
                score[view] += run["gamma"] ** t * weight * (np.eye(actions)[a] - ours[view])
                past = run["gamma"] * (past + own)
                view = 1 + actions * a + b
            want += chance * score
        assert np.allclose(run["found"], want, atol=1e-7), "not the mean over all games"


@check("expected_directions")
def directions_of_logits_sum_to_zero(out, ref):
    for run in out["runs"]:
        assert np.allclose(run["found"].sum(axis=1), 0, atol=1e-8)
    assert out["refused"] == [BAD, BAD, GOOD]


@check("rollouts")
def games_follow_the_tables_and_the_numbers(out, ref):
    for run in out:
        tables = [softmax(run["first"]), softmax(run["second"])]
        actions = run["payoffs"].shape[-1]
        batch, rounds, _ = run["uniforms"].shape
        assert np.all(run["views"][:, :, 0] == 0), "games do not start at view 0"
        for g, t in itertools.product(range(batch), range(rounds)):
            both = run["actions"][g, :, t]
            for player in (0, 1):
                row = tables[player][run["views"][g, player, t]]
                u, own, other = run["uniforms"][g, t, player], both[player], both[1 - player]
                assert row[:own].sum() <= u + 1e-9, "an action comes too late"
                assert u < row[: own + 1].sum() + 1e-9, "an action comes too early"
                assert np.isclose(run["log_probs"][g, player, t], np.log(row[own]))
                assert run["rewards"][g, player, t] == run["payoffs"][player, both[0], both[1]]
                assert run["views"][g, player, t + 1] == 1 + actions * own + other


@check("rollouts_at_the_edges")
def known_games(out, ref):
    assert np.all(out["late"]["actions"] == 6), "the last action is taken at the end of the scale"
    assert np.all(out["pardon"]["actions"] == 0)
    assert out["defied"]["actions"][0].tolist() == [[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]]
    assert np.all(out["blocked"]["actions"][:, 0] == 1), "an impossible action was taken"


@check("negotiations")
def nobody_gets_more_than_there_is(out, ref):
    for run in out["runs"]:
        asked = run["proposals"].sum(axis=1, keepdims=True)
        shares = run["proposals"] / np.maximum(asked, 5.0)
        want = np.einsum("bni,bni,bi->bn", shares, run["values"], run["quantities"])
        assert np.allclose(run["rewards"], want), "wrong rewards"
        best = (run["values"].max(axis=1) * run["quantities"]).sum(axis=1)
        assert np.allclose(run["efficiency"], want.sum(axis=1) / best)
        assert np.all(run["efficiency"] <= 1 + 1e-9)
    assert out["worthless"][1].tolist() == [1, 1]
    assert np.all(out["worthless"][0] == 0)
    assert out["refused"] == [GOOD, GOOD] + [BAD] * 6


@check("updates")
def an_update_learns_and_leaves_the_opponent_alone(out, ref):
    for name, run in out.items():
        assert run["opponent_alone"], f"{name}: the opponent was changed"
        assert all(run["opponent_gradients"]), f"{name}: the opponent got gradients"
        before, after = run["before"], run["after"]
        assert not np.allclose(before["actor.weight"], after["actor.weight"]), f"{name}: no step"
        for part in run["rounds"]:
            assert sorted(part) == ["entropy", "policy", "value"]
            assert all(type(x) is float for x in part.values()), f"{name}: not plain numbers"
            assert part["entropy"] > 0
            assert part["value"] >= 0


@check("updates")
def the_slow_critic_moves_by_its_rate(out, ref):
    run = out["free"]
    assert np.allclose(run["after"]["target.weight"], run["after"]["critic.weight"])
    for run in out.values():
        sizes = [np.square(gradient).sum() for gradient in run["gradient"]]
        assert np.isfinite(sizes).all()
    tight = np.sqrt(sum(np.square(g).sum() for g in out["tight"]["gradient"]))
    assert tight <= 0.05 + 1e-6, "gradients are larger than allowed"


@check("updates_with_small_advantages")
def scaling_survives_advantages_of_zero(out, ref):
    for found in out:
        assert np.isfinite(found["actor"]).all()
    assert out[0]["parts"]["policy"] == 0
    assert out[0]["parts"]["value"] == 0
