"""Facts about the outputs that follow from the paper's equations, whatever the reference says."""

from __future__ import annotations

import math

import numpy as np

from rcb_env.cases import check

INF = math.inf


def softmax(logits):
    """Probabilities in double precision."""
    powers = np.exp(np.asarray(logits, dtype=np.float64) - np.max(logits, axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def kept(filtered):
    """Which tokens a filter left alone."""
    return filtered > -INF


def rows(array):
    """All distributions of an array, one per row."""
    return np.reshape(array, (-1, np.shape(array)[-1]))


def check_common(runs):
    """What every truncation must do, whichever tokens it removes."""
    for run in runs:
        assert run["untouched"], "the logits were changed in place"
        assert run["double"].dtype == np.float64, "the dtype of the logits is not kept"
        for filtered in run["filtered"]:
            same = filtered == run["logits"]
            assert np.all(same | (filtered == -INF)), "a token that stays must keep its logit"
            assert np.all(kept(filtered).any(axis=-1)), "a distribution lost all its tokens"
        for filtered in run["spared"]:
            count = np.sum(filtered == run["logits"], axis=-1)
            assert np.all(count >= 3), "fewer than min_tokens_to_keep tokens stay"
            removed = filtered != run["logits"]
            assert np.all(filtered[removed] == -50.0), "removed tokens must get the filter value"


@check("min_p_of_random_logits")
def min_p_changes_nothing_but_removed_tokens(out, ref):
    check_common(out)


@check("min_p_of_random_logits")
def min_p_keeps_exactly_the_tokens_above_the_scaled_threshold(out, ref):
    for run in out:
        probs = softmax(run["logits"])
        for value, filtered in zip(run["values"], run["filtered"]):
            margin = probs - value * probs.max(axis=-1, keepdims=True)
            assert np.all(kept(filtered)[margin > 1e-6]), "a token above the threshold was removed"
            assert not np.any(kept(filtered)[margin < -1e-6]), "a token below the threshold stayed"


@check("min_p_of_random_logits")
def min_p_keeps_few_tokens_when_the_model_is_sure(out, ref):
    for run in out:
        top = softmax(run["logits"]).max(axis=-1)
        for value, filtered in zip(run["values"], run["filtered"]):
            bound = 1 / (value * top) if value else np.full_like(top, INF)
            count = kept(filtered).sum(axis=-1)
            assert np.all(count <= bound * (1 + 1e-5)), "more tokens stay than fit above the bar"


@check("min_p_of_special_logits")
def min_p_of_one_keeps_all_tokens_at_the_top_and_zero_keeps_everything(out, ref):
    assert kept(out["ties"][0]).tolist() == [False, True, True, False, True, False]
    assert kept(out["ties"][-1]).all()
    assert kept(out["flat"][0]).all(), "equally probable tokens must all stay"
    assert out["underflow"][-1][0].tolist() == [0.0, -200.0, -INF, -300.0]


@check("min_p_of_special_logits")
def min_p_refuses_what_is_no_share(out, ref):
    assert out["refused"] == ["ValueError"] * 8
    assert out["accepted"] == [None] * 4


def check_counts(out):
    """How many tokens stay when a truncation leaves one of a ladder of logits."""
    for n, filtered in zip((1, 2, 3, 4, 5, 5, 5), out["ladder"]):
        assert np.all(kept(filtered).sum(axis=-1) == n), f"{n} tokens should stay on the ladder"
    assert np.array_equal(out["first"], out["ladder"][0]), "one token is spared by default"
    assert out["refused"] == ["ValueError"] * 3


@check("min_p_spares_the_best_tokens")
def min_p_spares_as_many_as_asked(out, ref):
    check_counts(out)
    counts = [int(kept(filtered).sum()) for filtered in out["ties"]]
    assert counts == [3, 3, 3, 5, 5, 6], "tokens that tie with the last spared one stay too"
    for n, filtered in zip((2, 4, 5), out["block"]):
        assert np.all(np.sum(filtered != 0.25, axis=-1) == n)


@check("other_filters_spare_the_best_tokens")
def every_filter_spares_as_many_as_asked(out, ref):
    for found in out.values():
        check_counts(found)


@check("top_p_of_random_logits")
def the_nucleus_is_the_smallest_with_enough_mass(out, ref):
    check_common(out)
    for run in out:
        for value, filtered in zip(run["values"], run["filtered"]):
            for probs, keep in zip(rows(softmax(run["logits"])), rows(kept(filtered))):
                inside = probs[keep]
                assert inside.sum() >= value - 1e-5, "the nucleus holds too little mass"
                assert inside.sum() - inside.min() < value + 1e-5, "the nucleus is too large"
                if not keep.all():
                    assert inside.min() > probs[~keep].max(), "a more probable token is missing"


@check("top_p_of_special_logits")
def top_p_treats_ties_alike_and_drops_tokens_without_mass(out, ref):
    assert [int(kept(f).sum()) for f in out["ties"]] == [3, 3, 3, 5, 6]
    assert [int(kept(f).sum()) for f in out["flat"]] == [12, 12, 12]
    assert kept(out["underflow"][-1]).tolist() == [
        [True, False, False, False],
        [False, True, True, False],
    ]
    assert out["refused"] == ["ValueError"] * 8
    assert out["accepted"] == [None] * 3


@check("typical_of_random_logits")
def the_typical_set_is_nearest_to_the_entropy(out, ref):
    check_common(out)
    for run in out:
        for value, filtered in zip(run["values"], run["filtered"]):
            for probs, keep in zip(rows(softmax(run["logits"])), rows(kept(filtered))):
                far = np.abs(-np.log(probs) + np.sum(probs * np.log(probs)))
                mass = probs[keep].sum()
                last = probs[keep][np.argmax(far[keep])]
                assert mass >= value - 1e-5, "the typical set holds too little mass"
                assert mass - last < value + 1e-5, "the typical set is too large"
                if not keep.all():
                    nearest = far[~keep].min()
                    assert far[keep].max() < nearest + 1e-5, "a more typical token is missing"


@check("typical_of_special_logits")
def a_mode_that_is_far_from_the_entropy_is_removed(out, ref):
    few, most, nearly_all = out["unlikely_mode"]
    assert kept(few).sum() == 300
    assert not kept(few)[7]
    assert kept(most).sum() == 300
    assert kept(nearly_all).all()
    assert out["refused"] == ["ValueError"] * 8
    assert out["accepted"] == [None] * 3


@check("distributions_of_random_logits")
def a_distribution_sums_to_one_and_untruncated_ones_follow_the_equation(out, ref):
    for run in out.values():
        assert run["untouched"], "the logits were changed in place"
        for name, probs in run["probs"].items():
            assert np.allclose(probs.sum(axis=-1), 1, atol=1e-5), f"{name} does not sum to 1"
        logits = run["logits"].astype(np.float64)
        for name, temperature in [("plain", 1.0), ("hot", 3.0), ("cold", 0.3), ("min_p_off", 1.0)]:
            want = softmax(logits / temperature)
            assert np.allclose(run["probs"][name], want, atol=1e-5), f"{name} is wrong"


@check("distributions_of_random_logits")
def min_p_before_temperature_is_judged_by_the_models_own_distribution(out, ref):
    for run in out.values():
        logits = run["logits"].astype(np.float64)
        gap = logits.max(axis=-1, keepdims=True) - logits
        for name, base, temperature, scale in [
            ("hot_min_p", 0.3, 2.0, 2.0),
            ("cold_min_p", 0.02, 0.5, 0.5),
            ("hot_min_p_last", 0.3, 2.0, 1.0),
            ("cold_min_p_last", 0.02, 0.5, 1.0),
        ]:
            bar = -scale * math.log(base)
            sure = np.abs(gap - bar) > 1e-4
            probs = run["probs"][name]
            assert np.array_equal((probs > 0)[sure], (gap < bar)[sure]), f"{name}: wrong tokens"
            weights = softmax(logits / temperature) * (probs > 0)
            want = weights / weights.sum(axis=-1, keepdims=True)
            assert np.allclose(probs, want, atol=1e-5), f"{name}: wrong probabilities"


@check("temperature_zero_is_greedy")
def greedy_takes_the_first_of_the_best(out, ref):
    assert out["ties"].tolist() == [0, 1, 0, 0, 0, 0]
    assert out["flat"].tolist() == [[1, 0, 0, 0]] * 2
    assert out["truncated"].tolist() == [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]]
    assert out["double"].dtype == np.float64
    assert np.array_equal(out["random"], out["last"])


@check("settings_that_are_refused")
def bad_settings_are_value_errors(out, ref):
    bad, good = "ValueError", None
    assert out["temperature"] == [bad, bad, bad, good, good, good, good, bad, bad]
    assert out["min_p"] == [bad, good, good, bad]
    assert out["last"] == [bad, bad]


@check("draws_from_random_weights")
def a_draw_is_where_the_cdf_passes_the_number(out, ref):
    for run in out:
        tokens = rows(run["tokens"][..., None])[:, 0]
        for weights, u, token in zip(rows(run["weights"]), run["uniforms"].ravel(), tokens):
            cdf = np.cumsum(weights.astype(np.float64))
            assert weights[token] > 0, "a token without weight was drawn"
            assert cdf[token] - weights[token] <= u * cdf[-1] + 1e-9, "the token comes too late"
            assert u * cdf[-1] < cdf[token] + 1e-9, "the token comes too early"


@check("draws_at_the_edges")
def draws_of_zero_and_of_almost_one(out, ref):
    assert out["sure"].tolist() == [2, 2, 2, 2]
    assert out["quarters"].tolist() == [1, 1, 2, 2, 4, 4, 4]
    assert out["scaled"].tolist() == [1, 1, 2, 2, 4, 4, 4]
    assert out["halves"].tolist() == [0, 0, 1, 1]
    assert out["fine"].tolist() == [0, 1, 2], "weights must be added up in double precision"
    assert out["finer"].tolist() == [0, 2, 3], "so must be the product with the number"
    assert out["number"].shape == ()
    assert out["number"].dtype == np.int64


@check("draws_that_are_refused")
def bad_draws_are_value_errors(out, ref):
    bad, good = "ValueError", None
    assert out["uniforms"] == [bad, bad, bad, good, good, bad, bad, bad, bad]
    assert out["shapes"] == [good] + [bad] * 5
    assert out["weights"] == [bad, good, bad, bad, good, bad]


@check("texts_of_a_bigram_model")
def texts_begin_with_the_prompt_and_end_once(out, ref):
    prompts = out["prompts"]
    for name, made in out.items():
        if name in ("prompts", "table"):
            continue
        padding = 4 if name.startswith("at least") else 5
        new = made["tokens"][:, 3:]
        assert np.array_equal(made["tokens"][:, :3], prompts), "a prompt was changed"
        assert made["log_probs"].shape == new.shape
        assert made["lengths"].max() == new.shape[1], "a step was taken for nobody"
        for row, scores, length in zip(new, made["log_probs"], made["lengths"]):
            assert 0 not in row[: length - 1], "a text goes on after its end"
            assert np.all(row[length:] == padding), "the rest of a row is not padding"
            assert np.all(scores[length:] == 0), "padding has a log-probability"


@check("texts_of_a_bigram_model")
def log_probabilities_are_the_models_own(out, ref):
    table = np.log(softmax(out["table"]))
    for name in ("plain", "min_p", "greedy", "at least 3"):
        made = out[name]
        for row, scores, length in zip(made["tokens"], made["log_probs"], made["lengths"]):
            want = [table[row[2 + i], row[3 + i]] for i in range(length)]
            assert np.allclose(scores[:length], want, atol=1e-4), f"{name}: not the model's own"


@check("texts_of_a_bigram_model")
def no_text_ends_before_the_minimum(out, ref):
    for least in (1, 3, 9, 20):
        new = out[f"at least {least}"]["tokens"][:, 3:]
        assert not np.any(new[:, :least] == 0), "a text ended too early"


@check("texts_that_end_at_known_steps")
def countdowns_end_where_they_should(out, ref):
    assert out["long"]["tokens"].tolist() == [
        [3, 3, 2, 1, 0],
        [0, 2, 1, 0, 3],
        [0, 1, 0, 3, 3],
    ]
    assert out["long"]["lengths"].tolist() == [3, 2, 1]
    assert out["cut"]["lengths"].tolist() == [2, 2, 1]
    assert out["none"]["tokens"].tolist() == out["prompts"].tolist()
    assert np.array_equal(out["just"]["tokens"], out["long"]["tokens"])
    assert out["end in the prompt"]["lengths"].tolist() == [4, 3]
    assert out["blocked"]["tokens"].tolist() == [[1, 1, 1, 0], [2, 1, 1, 0]]


@check("entry_temperatures_of_random_logits")
def at_its_entry_temperature_a_token_stands_at_the_threshold(out, ref):
    for run in out:
        logits = run["logits"].astype(np.float64)
        for base, entry in run["entry"].items():
            gap = logits - logits.max(axis=-1, keepdims=True)
            behind = gap < 0
            ratio = np.exp(gap[behind] / entry[behind])
            assert np.allclose(ratio, float(base), rtol=1e-4), "the ratio is not the base threshold"
            assert np.all(entry[~behind] == 0), "the best token enters at temperature 0"


@check("entry_temperatures_at_the_edges")
def entry_temperatures_need_a_base_between_zero_and_one(out, ref):
    assert out["refused"] == ["ValueError"] * 7
    assert out["accepted"] == [None] * 3
    assert np.allclose(out["blocked"], [[1 / math.log(5), INF, 0]], rtol=1e-5)


@check("diversity_of_special_texts")
def diversity_of_texts_that_can_be_counted_by_hand(out, ref):
    def near(name, within, between):
        found = out[name]
        close = math.isclose(found["within"], within, abs_tol=1e-9)
        assert close, f"{name}: wrong diversity within texts"
        close = math.isclose(found["between"], between, abs_tol=1e-9)
        assert close, f"{name}: wrong diversity between texts"

    near("constant", 1 / 12, 0)
    near("all different", 1, 0)
    near("twice the same", 1, 0)
    near("nothing shared", 1, 1)
    near("half shared", 1, 1 - 3 / 7)
    near("order matters", 1, 1)
    near("empty", 1, 0)
    near("both empty", 1, 0)
    near("one empty", 1, 1)
    near("weights of texts", (1 / 8 / 7 + 1) / 2, 1 - 1 / 4)
    assert out["refused"] == "ValueError"
    assert out["accepted"] is None


@check("accuracy_of_special_votes")
def votes_that_can_be_counted_by_hand(out, ref):
    assert out["majority"] == 1
    assert out["minority"] == 0
    assert math.isclose(out["two tie"], 1 / 2)
    assert math.isclose(out["three tie"], 1 / 3)
    assert out["tie without the truth"] == 0
    assert out["abstentions"] == 1
    assert out["nobody answers"] == 0
    assert np.allclose(out["subsets"], [0.6, 0.6, 0.7, 0.7, 1.0])
    assert np.allclose(out["uneven"], [0.625, 0.625])
    assert out["refused"] == ["ValueError"] * 9
    assert out["accepted"] == [None] * 2


@check("accuracy_of_random_answers")
def a_single_vote_is_the_share_of_right_answers(out, ref):
    shares = [
        np.mean([answer == truth for answer in answers])
        for answers, truth in zip(out["answers"], out["truths"])
    ]
    assert math.isclose(out["accuracy"][0], float(np.mean(shares)))
