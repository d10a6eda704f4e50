"""Facts about the outputs that follow from the paper's equations, whatever the reference says."""

from __future__ import annotations

import math

import numpy as np

from rcb_env.cases import check


def total(log_p, log_q, alpha, weights=None):
    """The log-likelihood of a corpus, up to a constant, at shares (k,)."""
    ratio = np.exp(np.clip(log_q - log_p, -600, 600))
    values = np.log1p(np.outer(np.atleast_1d(alpha), ratio - 1))
    return values @ (np.ones(len(log_p)) if weights is None else weights)


def best(log_p, log_q, weights=None):
    """The best share on a fine grid."""
    grid = np.linspace(0, 1, 4001)[1:-1]
    return grid[np.argmax(total(log_p, log_q, grid, weights))]


@check("vocabularies_of_random_corpora")
def vocabularies_hold_words_that_both_corpora_know(out, ref):
    counts = [
        {word: sum(word in sentence for sentence in out[side]) for word in out["found"]["1 None"]}
        for side in ("human", "machine")
    ]
    for name, words in out["found"].items():
        least, most = name.split()
        assert words == sorted(set(words)), "a vocabulary is in alphabetical order"
        known = [w for w in counts[0] if min(counts[0][w], counts[1][w]) >= int(least)]
        assert set(words) <= set(known)
        assert len(words) == (len(known) if most == "None" else min(len(known), int(most)))
    assert out["untouched"]
    assert not {"model", "we"} & set(out["excluded"])


@check("vocabularies_of_special_corpora")
def vocabularies_that_can_be_counted_by_hand(out, ref):
    assert out["all"] == ["a", "b", "c", "d", "e"]
    assert out["two"] == ["d"]
    assert out["ranked"][1:4] == [["d"], ["b", "d"], ["a", "b", "d"]]
    assert out["without"] == ["a", "b"]
    assert out["refused"] == ["ValueError"] * 4 + [None] * 2


@check("growth_of_random_words")
def words_are_ranked_by_their_ratio(out, ref):
    for words, plain in out["runs"]:
        ratios = [ratio for _, ratio in words]
        assert ratios == sorted(ratios, reverse=True)
        assert all(ratio > 1 for ratio in ratios)
        assert plain
        names = [word for word, _ in words]
        assert "delve" not in names, "a word that has not grown"
        if {"model", "pivotal"} <= set(names):
            assert names.index("pivotal") == names.index("model") + 1, "ties keep their order"


@check("probabilities_of_random_corpora")
def probabilities_are_smoothed_shares(out, ref):
    for run in out["runs"]:
        n = len(run["found"])
        for smoothing, values in zip(run["smoothings"], run["probabilities"]):
            assert np.allclose(values, (run["found"].sum(0) + smoothing) / (n + 2 * smoothing))
            assert np.all((values > 0) & (values < 1))
    assert out["refused"] == ["ValueError"] * 4 + [None] * 2


@check("likelihoods_of_random_sentences")
def likelihoods_are_products_over_words(out, ref):
    for run in out["runs"]:
        p = run["probabilities"]
        want = np.prod(np.where(run["found"], p, 1 - p), axis=1)
        assert np.allclose(np.exp(run["values"]), want, rtol=1e-8)
    assert np.isclose(out["tiny"][0], -3.01e-18, rtol=1e-9, atol=0), "use log1p"
    assert np.all(out["empty"] == 0)
    assert out["none"].shape == (0,)


@check("mixture_of_random_likelihoods")
def mixtures_of_sentences_that_underflow(out, ref):
    for share, values in zip(out["shares"], out["values"]):
        want = np.log((1 - share) * np.exp(out["log_p"]) + share * np.exp(out["log_q"]))
        assert np.allclose(values, want)
    assert np.allclose(out["far"][0], [-5000, -10, -2000])
    assert np.allclose(out["far"][2], [-10, -4000, -2001])
    assert np.allclose(out["far"][1][:2], [-10 + math.log(0.3), -10 + math.log(0.7)])
    assert out["refused"] == ["ValueError"] * 5 + [None] * 2


@check("shares_of_random_likelihoods")
def no_other_share_is_more_likely(out, ref):
    for run in out:
        for key, weights in (("alpha", None), ("weighted", run["weights"])):
            shares = np.clip(run[key] + np.array([0, -1e-3, 1e-3]), 0, 1)
            here, left, right = total(run["log_p"], run["log_q"], shares, weights)
            assert here >= max(left, right) - 1e-9
            assert abs(best(run["log_p"], run["log_q"], weights) - run[key]) < 1e-3
        assert math.isclose(run["weighted"], run["scaled"], abs_tol=1e-7)
        assert run["plain"]


@check("shares_of_special_likelihoods")
def shares_that_are_known(out, ref):
    shares = out["shares"]
    for name in ("equal", "human", "only the human", "one human", "far without the machine"):
        assert shares[name] == 0, name
    for name in ("machine", "only the machine", "one machine", "far without the human"):
        assert shares[name] == 1, name
    assert math.isclose(shares["certain"], 1 / 4, abs_tol=1e-7)
    assert math.isclose(shares["certain and weighted"], 1 / 7, abs_tol=1e-7)
    assert 0 < shares["almost none"] < 0.02
    assert out["quiet"] == [None] * 3, "numpy must not warn"
    assert out["refused"] == ["ValueError"] * 10 + [None] * 2


@check("intervals_of_random_papers")
def intervals_hold_the_middle_of_the_resampled_estimates(out, ref):
    for run in out:
        names = np.unique(run["papers"])
        shares = []
        for drawn in run["draws"]:
            rows = np.concatenate([np.flatnonzero(run["papers"] == names[k]) for k in drawn])
            shares.append(best(run["log_p"][rows], run["log_q"][rows]))
        alpha, low, high = run["interval"]
        tail = (1 - run["level"]) / 2
        assert abs(alpha - best(run["log_p"], run["log_q"])) < 1e-3
        assert abs(low - np.quantile(shares, tail)) < 1e-3
        assert abs(high - np.quantile(shares, 1 - tail)) < 1e-3
        assert low <= high
        assert run["plain"]


@check("intervals_at_the_edges")
def bad_resamples_are_refused(out, ref):
    assert out["refused"] == ["ValueError"] * 12
    assert out["accepted"] == [None] * 3
    for name, found in zip((1, 5, 9), out["first"]):
        here = out["papers"] == name
        assert found[1] == found[2]
        assert abs(found[1] - best(out["log_p"][here], out["log_q"][here])) < 1e-3
    assert len(set(out["every"])) == 1


@check("trends_of_random_months")
def trends_have_no_gaps(out, ref):
    for name, trend in out["found"].items():
        least, release = name.split()
        assert [m[0] for m in trend][:4] == ["2021-11", "2021-12", "2022-01", "2022-02"]
        assert len(trend) == 16
        assert sum(m[1] for m in trend) == len(out["months"])
        base = [m[2] for m in trend if m[0] < release and m[2] is not None]
        for month, count, alpha, excess in trend:
            assert count == out["months"].count(month)
            assert (alpha is None) == (count < int(least))
            if alpha is None or not base:
                assert excess is None
            else:
                assert math.isclose(excess, alpha - np.mean(base), abs_tol=1e-9)


@check("trends_at_the_edges")
def years_turn_after_december(out, ref):
    assert [m[0] for m in out["turn"]] == ["2019-10", "2019-11", "2019-12", "2020-01"]
    assert [m[1] for m in out["turn"]] == [1, 0, 1, 2]
    assert out["turn"][1][2:] == [None, None]
    assert out["one"][0][3] is None
    assert out["year"][0][0] == "0999-11"
    assert len(out["year"]) == 14
    assert out["none"] == []
    assert out["refused"] == ["ValueError"] * 4 + [None]


@check("validation_of_random_corpora")
def known_shares_are_found_again(out, ref):
    for run in out["runs"]:
        count = run["count"]
        want = [math.floor(share * count + 0.5) / count for share in out["shares"]]
        assert np.allclose(run["truth"], want)
        assert np.all((np.array(run["estimate"]) >= 0) & (np.array(run["estimate"]) <= 1))
        assert run["plain"]
    assert out["runs"][0]["estimate"][0] < out["runs"][0]["estimate"][4]
    assert out["none"] == []


@check("validation_at_the_edges")
def impossible_corpora_are_refused(out, ref):
    fresh = int(np.random.default_rng(3).integers(1 << 30))
    assert out["values"][0] is None
    assert out["attempts"] == [["ValueError", fresh]] * 5, "refuse before anything is drawn"
    bad = "ValueError"
    assert out["short"] == [None, bad, None, bad, None, bad, bad, bad]
    assert out["halves"] == [0, 0, 0.5, 0.5, 0.5, 1, 1]


@check("peers_of_random_embeddings")
def distances_go_to_the_most_similar_other_paper(out, ref):
    for embeddings, distances in zip(out["embeddings"], out["distances"]):
        for i, one in enumerate(embeddings):
            want = min(
                1 - one @ other / math.sqrt((one @ one) * (other @ other))
                for j, other in enumerate(embeddings)
                if j != i
            )
            assert math.isclose(distances[i], want, abs_tol=1e-9)
    assert np.allclose(out["scaled"], out["distances"][1])
    assert np.allclose(out["twins"][[1, 4]], 1)
    assert np.allclose(out["opposite"], 2)
    assert out["refused"] == ["ValueError"] * 3 + [None]


@check("halves_of_random_papers")
def halves_are_split_at_the_median_paper(out, ref):
    for run in out:
        lower = (run["values"] < np.median(run["values"]))[run["papers"]]
        for half, share in zip((lower, ~lower), run["contrast"]):
            if half.any():
                assert abs(share - best(run["log_p"][half], run["log_q"][half])) < 1e-3
            else:
                assert share is None


@check("halves_at_the_edges")
def halves_that_are_known(out, ref):
    first, second, third, early, late, every = out["alone"]
    assert np.allclose(out["ties"][1], every)
    assert out["ties"][0] is None
    assert np.allclose(out["low"], [first, late], atol=1e-7)
    assert np.allclose(out["middle"], [first, late], atol=1e-7)
    assert np.allclose(out["infinite"], [first, late], atol=1e-7)
    assert out["unknown"] == [None, None]
    assert out["one"][0] is None
    assert np.allclose(out["hole"], [second, third], atol=1e-7)
    assert np.allclose(out["silent"], [early, third], atol=1e-7)
    assert out["silent below"][0] is None
