"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import math
import warnings

import numpy as np

from rcb_env.cases import case, raises

NAN, INF = math.nan, math.inf
WORDS = ["data", "delve", "method", "model", "novel", "pivotal", "realm", "result", "show", "we"]


def draw_sentences(rng, count, probabilities):
    """Sentences in which words occur, some of them twice."""
    found = rng.numpy.random((count, len(WORDS))) < probabilities
    made = []
    for row in found:
        sentence = [word for word, here in zip(WORDS, row) if here]
        made.append(sentence + sentence[: int(rng.numpy.integers(0, 3))])
    return made


def log_likelihoods(rng, count, spread=1.5, offset=-30.0, shift=0.0):
    """Two arrays of log-likelihoods that cross."""
    base = rng.numpy.normal(offset, 3.0, count)
    return base, base + rng.numpy.normal(shift, spread, count)


# --- vocabulary --------------------------------------------------------------------------------


@case(seeds=3, covers=["src/vocabulary.py"])
def vocabularies_of_random_corpora(tree, rng):
    build = tree.load("vocabulary").build_vocabulary
    weights = rng.numpy.random(len(WORDS))
    human = draw_sentences(rng, 20, weights)
    machine = draw_sentences(rng, 25, rng.numpy.permutation(weights))
    human.append([])
    before = [list(sentence) for sentence in human]
    found = {
        f"{least} {most}": build(human, machine, least, most)
        for least in (1, 3, 6, 10, 30)
        for most in (None, 0, 1, 2, 3, 5, 50)
    }
    return {
        "human": human,
        "machine": machine,
        "found": found,
        "default": build(human, machine),
        "excluded": build(human, machine, 2, 4, {"model", "we", "nothing"}),
        "tuples": build([tuple(s) for s in human], tuple(map(tuple, machine)), 2),
        "untouched": before == human,
    }


@case(seeds=1, covers=["src/vocabulary.py"])
def vocabularies_of_special_corpora(tree, rng):
    build = tree.load("vocabulary").build_vocabulary
    human = [["b", "a", "a", "a"], ["b", "c"], ["c", "b", "d"], ["e", "d"]]
    machine = [["a"], ["b", "c", "d"], ["d", "a"], ["e", "e", "e"], ["f", "d"]]
    return {
        "all": build(human, machine, 1),
        "two": build(human, machine, 2),
        "ranked": [build(human, machine, 1, most) for most in range(6)],
        "without": build(human, machine, 1, 2, frozenset({"d"})),
        "refused": [
            raises(lambda a=a: build(*a))
            for a in (
                ([], machine, 1),
                (human, [], 1),
                (human, machine, 0),
                (human, machine, -3),
                (human, machine, 1),
                ([[]], machine, 1),
            )
        ],
    }


@case(seeds=3, covers=["src/vocabulary.py"])
def growth_of_random_words(tree, rng):
    excess = tree.load("vocabulary").excess_words
    before = rng.numpy.uniform(0.01, 0.5, len(WORDS))
    after = rng.numpy.uniform(0.01, 0.5, len(WORDS))
    before[3], after[3] = 0.25, 0.5
    before[5], after[5] = 0.125, 0.25
    before[1], after[1] = 0.25, 0.25
    runs = []
    for top in (0, 1, 3, 20):
        for rare in (0.0, 0.1, 0.25, 0.3, 0.5, 0.6):
            words = excess(WORDS, before, after, top, rare)
            runs.append([list(map(list, words)), all(type(r) is float for _, r in words)])
    return {"before": before, "after": after, "runs": runs, "default": excess(WORDS, before, after, 9)}


# --- occurrence --------------------------------------------------------------------------------


@case(seeds=3, rtol=1e-9, atol=1e-12, covers=["src/occurrence.py"])
def probabilities_of_random_corpora(tree, rng):
    module = tree.load("occurrence")
    runs = []
    for count, size in ((1, 3), (7, 5), (40, 8)):
        found = rng.numpy.random((count, size)) < rng.numpy.random(size)
        smoothings = (0.5, 1.0, 0.01, float(rng.numpy.uniform(0.1, 3)))
        runs.append(
            {
                "found": found,
                "smoothings": smoothings,
                "probabilities": [module.occurrence_probabilities(found, s) for s in smoothings],
                "default": module.occurrence_probabilities(found),
            }
        )
    found = np.ones((3, 2), dtype=bool)
    return {
        "runs": runs,
        "refused": [
            raises(lambda f=f, s=s: module.occurrence_probabilities(f, s))
            for f, s in (
                (found[:0], 0.5),
                (found, 0.0),
                (found, -1.0),
                (found, NAN),
                (found, 1e-9),
                (found[:1], 0.5),
            )
        ],
    }


@case(seeds=3, rtol=1e-9, atol=1e-25, covers=["src/occurrence.py"])
def likelihoods_of_random_sentences(tree, rng):
    likelihood = tree.load("occurrence").sentence_log_likelihood
    runs = []
    for count, size in ((1, 1), (9, 6), (30, 4)):
        found = rng.numpy.random((count, size)) < 0.5
        probabilities = rng.numpy.uniform(0.01, 0.99, size)
        values = likelihood(found, probabilities)
        runs.append({"found": found, "probabilities": probabilities, "values": values})
    tiny = np.array([1e-20, 3e-18])
    return {
        "runs": runs,
        "tiny": likelihood(np.array([[False, False], [True, False], [True, True]]), tiny),
        "empty": likelihood(np.zeros((3, 0), dtype=bool), np.zeros(0)),
        "none": likelihood(np.zeros((0, 2), dtype=bool), tiny),
    }


# --- mixture -----------------------------------------------------------------------------------


@case(seeds=3, rtol=1e-9, atol=1e-12, covers=["src/mixture.py"])
def mixture_of_random_likelihoods(tree, rng):
    mixture = tree.load("mixture").mixture_log_likelihood
    log_p, log_q = log_likelihoods(rng, 12)
    far = [np.array([-5000.0, -10.0, -2000.0]), np.array([-10.0, -4000.0, -2001.0])]
    shares = (0.0, 1e-6, 0.2, 0.5, float(rng.numpy.random()), 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = {
            "near": [mixture(log_p, log_q, a) for a in (0.2, 0.5, 0.9)],
            "ends": [raises(lambda a=a: mixture(log_p, log_q, a)) for a in (0.0, 1.0)],
        }
    return {
        "log_p": log_p,
        "log_q": log_q,
        "shares": shares,
        "values": [mixture(log_p, log_q, a) for a in shares],
        "far": [mixture(*far, a) for a in (0.0, 0.3, 1.0)],
        "made": made,
        "refused": [
            raises(lambda a=a: mixture(log_p, log_q, a)) for a in (-0.01, 1.01, NAN, -INF, 2.0, 0, 1)
        ],
    }


@case(seeds=3, rtol=1e-6, atol=1e-6, covers=["src/mixture.py"])
def shares_of_random_likelihoods(tree, rng):
    estimate = tree.load("mixture").estimate_alpha
    runs = []
    for count in (1, 5, 40, 200):
        for shift, offset in ((0.0, -30.0), (0.6, -3000.0), (-0.6, 0.0), (5.0, -9.0), (-5.0, -9.0)):
            log_p, log_q = log_likelihoods(rng, count, offset=offset, shift=shift)
            weights = rng.numpy.integers(0, 4, count).astype(float)
            weights[0] = 1.0
            runs.append(
                {
                    "log_p": log_p,
                    "log_q": log_q,
                    "weights": weights,
                    "alpha": estimate(log_p, log_q),
                    "faint": estimate(log_p, log_q, 1e-13 * weights),
                    "weighted": estimate(log_p, log_q, weights),
                    "scaled": estimate(log_p, log_q, weights * 0.125),
                    "plain": type(estimate(log_p, log_q)) is float,
                }
            )
    return runs


@case(seeds=1, rtol=1e-6, atol=1e-6, covers=["src/mixture.py"])
def shares_of_special_likelihoods(tree, rng):
    estimate = tree.load("mixture").estimate_alpha
    base = rng.numpy.normal(-50, 3, 8)
    jump = np.array([9000.0, -9000.0, 9000.0, -9000.0, -9000.0, 1.0, -1.0, 9000.0])
    some = np.array([0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    sure = np.array([0.0, 1.0, 1.0, 1.0])
    shares = {
        "equal": estimate(base, base.copy()),
        "human": estimate(base, base - 1.0),
        "machine": estimate(base, base + 1.0),
        "far": estimate(base, base + jump),
        "far without the machine": estimate(base, base + jump, some),
        "far without the human": estimate(base, base + jump, (jump > 0).astype(float)),
        "certain": estimate(np.array([-2000.0, 0, 0, 0]), np.array([0.0, -2000, -2000, -2000])),
        "certain and weighted": estimate(
            np.array([-2000.0, 0, 0, 0]), np.array([0.0, -2000, -2000, -2000]), sure + 1
        ),
        "only the human": estimate(
            np.array([-2000.0, 0, 0, 0]), np.array([0.0, -2000, -2000, -2000]), sure
        ),
        "only the machine": estimate(
            np.array([-2000.0, 0, 0, 0]), np.array([0.0, -2000, -2000, -2000]), 1 - sure
        ),
        "one human": estimate(np.array([-1.0]), np.array([-1.5])),
        "one machine": estimate(np.array([-1.5]), np.array([-1.0])),
        "almost none": estimate(np.zeros(101), np.array([7.0] + [-3.0] * 100)),
        "flat at zero": estimate(np.zeros(2), np.log(np.array([0.5, 1.5]))),
        "flat at one": estimate(np.log(np.array([0.5, 1.5])), np.zeros(2)),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet = [raises(lambda j=j: estimate(base, base + j)) for j in (jump, -jump, jump * 0.01)]
    ones = np.ones(8)
    return {
        "shares": shares,
        "quiet": quiet,
        "refused": [
            raises(lambda a=a: estimate(*a))
            for a in (
                (base, base[:7]),
                (base, base, ones[:7]),
                (base.reshape(2, 4), base.reshape(2, 4)),
                (base.reshape(2, 4), base.reshape(2, 4), ones.reshape(2, 4)),
                (base[:, None], base[:, None], ones[:, None]),
                (base[:0], base[:0]),
                (base, base, ones * 0),
                (base, base, -ones),
                (base, base, np.where(jump == 1, -0.5, 1.0)),
                (base, base, np.where(jump == 1, NAN, 1.0)),
                (base, base, np.where(jump == 1, 0.0, 1.0)),
                (base, base, ones),
            )
        ],
    }


# --- bootstrap ---------------------------------------------------------------------------------


@case(seeds=3, rtol=1e-6, atol=1e-6, covers=["src/bootstrap.py"])
def intervals_of_random_papers(tree, rng):
    interval = tree.load("bootstrap").bootstrap_interval
    runs = []
    for count, names, resamples in ((30, (7, -2, 40, 11), 9), (60, tuple(range(6)), 12), (5, (3,), 2)):
        log_p, log_q = log_likelihoods(rng, count)
        papers = rng.numpy.permutation(np.resize(np.array(names), count))
        draws = rng.numpy.integers(0, len(names), (resamples, len(names)))
        for level in (0.95, 0.5):
            made = interval(log_p, log_q, papers, draws, level)
            runs.append(
                {
                    "log_p": log_p,
                    "log_q": log_q,
                    "papers": papers,
                    "draws": draws,
                    "level": level,
                    "interval": [made.alpha, made.low, made.high],
                    "default": list(interval(log_p, log_q, papers, draws)),
                    "plain": all(type(value) is float for value in made),
                }
            )
    return runs


@case(seeds=1, rtol=1e-6, atol=1e-6, covers=["src/bootstrap.py"])
def intervals_at_the_edges(tree, rng):
    interval = tree.load("bootstrap").bootstrap_interval
    log_p, log_q = log_likelihoods(rng, 12)
    papers = np.array([5, 5, 9, 9, 9, 1, 1, 5, 9, 1, 1, 1])
    one = np.array([[0, 0, 0]])
    every = np.array([[0, 1, 2]])
    bad = (
        (np.zeros((0, 3), dtype=int), 0.9),
        (np.array([[0, 1]]), 0.9),
        (np.array([[0, 1, 2, 2]]), 0.9),
        (np.array([0, 1, 2]), 0.9),
        (np.array([[[0, 1, 2]]]), 0.9),
        (np.array([[0, 1, 3]]), 0.9),
        (np.array([[0, -1, 2]]), 0.9),
        (every, 0.0),
        (every, 1.0),
        (every, -0.5),
        (every, 1.5),
        (every, NAN),
    )
    return {
        "log_p": log_p,
        "log_q": log_q,
        "papers": papers,
        "first": [list(interval(log_p, log_q, papers, one + k)) for k in range(3)],
        "every": list(interval(log_p, log_q, papers, every)),
        "refused": [raises(lambda d=d, v=v: interval(log_p, log_q, papers, d, v)) for d, v in bad],
        "accepted": [
            raises(lambda d=d, v=v: interval(log_p, log_q, papers, d, v))
            for d, v in ((one, 0.999), (every, 0.001), (every + 0 * one, 0.9))
        ],
    }


# --- trend -------------------------------------------------------------------------------------


def as_lists(trend):
    """A trend without its tuples."""
    return [[m.month, m.sentences, m.alpha, m.excess] for m in trend]


@case(seeds=3, rtol=1e-6, atol=1e-6, covers=["src/trend.py"])
def trends_of_random_months(tree, rng):
    trend_of = tree.load("trend").monthly_trend
    names = ["2021-11", "2021-12", "2022-01", "2022-03", "2022-10", "2022-11", "2023-02"]
    months = [names[i] for i in rng.numpy.permutation(np.resize(np.arange(7), 60))]
    months += ["2022-03", "2023-02", "2023-02"]
    log_p, log_q = log_likelihoods(rng, len(months))
    found = {
        f"{least} {release}": as_lists(trend_of(months, log_p, log_q, release, least))
        for least in (1, 9, 10, 11, 40)
        for release in ("2022-11", "2022-03", "2021-11", "2030-01", "2021-12")
    }
    return {
        "months": months,
        "log_p": log_p,
        "log_q": log_q,
        "found": found,
        "default": as_lists(trend_of(months, log_p, log_q)),
        "lax": [as_lists(trend_of(months, log_p, log_q, min_sentences=k)) for k in (0, -4)],
    }


@case(seeds=1, rtol=1e-6, atol=1e-6, covers=["src/trend.py"])
def trends_at_the_edges(tree, rng):
    trend_of = tree.load("trend").monthly_trend
    log_p, log_q = log_likelihoods(rng, 4)
    months = ["2019-12", "2020-01", "2019-10", "2020-01"]
    return {
        "turn": as_lists(trend_of(months, log_p, log_q)),
        "one": as_lists(trend_of(months[:1], log_p[:1], log_q[:1], "2019-12")),
        "year": as_lists(trend_of(["0999-11", "1000-12"], log_p[:2], log_q[:2])),
        "none": as_lists(trend_of([], log_p[:0], log_q[:0])),
        "refused": [
            raises(lambda a=a: trend_of(*a))
            for a in (
                (months[:3], log_p, log_q),
                (months, log_p[:3], log_q),
                (months, log_p, log_q[:3]),
                ([], log_p, log_q),
                (months, log_p, log_q),
            )
        ],
    }


# --- validation --------------------------------------------------------------------------------


@case(seeds=3, rtol=1e-6, atol=1e-6, covers=["src/validation.py"])
def validation_of_random_corpora(tree, rng):
    validate = tree.load("validation").validate
    size = 12
    human = rng.numpy.uniform(0.05, 0.5, size)
    machine = np.clip(human * np.exp(rng.numpy.normal(0, 1, size)), 0.02, 0.9)

    def corpus(probabilities, count):
        return rng.numpy.random((count, size)) < probabilities

    train = corpus(human, 150), corpus(machine, 120)
    test = corpus(human, 60), corpus(machine, 50)
    shares = [0.0, 0.1, 0.25, 0.5, 1.0, 0.33]
    runs = []
    for count, smoothing in ((40, 0.5), (50, 2.0), (7, 0.5), (1, 0.1)):
        generator = np.random.default_rng(rng.seed % 1000 + count)
        made = validate(train, test, shares, count, generator, smoothing)
        runs.append(
            {
                "count": count,
                "truth": [result.truth for result in made],
                "estimate": [result.estimate for result in made],
                "plain": all(type(value) is float for result in made for value in result),
                "next": int(generator.integers(1 << 30)),
            }
        )
    default = validate(train, test, [0.2], 40, np.random.default_rng(5))
    return {
        "runs": runs,
        "shares": shares,
        "none": validate(train, test, [], 5, np.random.default_rng(1)),
        "default": [default[0].truth, default[0].estimate],
    }


@case(seeds=1, rtol=1e-6, atol=1e-6, covers=["src/validation.py"])
def validation_at_the_edges(tree, rng):
    validate = tree.load("validation").validate
    train = rng.numpy.random((9, 4)) < 0.3, rng.numpy.random((9, 4)) < 0.6
    test = rng.numpy.random((6, 4)) < 0.3, rng.numpy.random((5, 4)) < 0.6

    def attempt(shares, size):
        generator = np.random.default_rng(3)
        error = raises(lambda: validate(train, test, shares, size, generator))
        return [error, int(generator.integers(1 << 30))]

    return {
        "values": attempt([0.5], 4),
        "attempts": [
            attempt(shares, size)
            for shares, size in (
                ([0.5], 0),
                ([0.5], -2),
                ([0.5, 1.1], 4),
                ([0.5, -0.1], 4),
                ([NAN], 4),
            )
        ],
        "short": [
            attempt(shares, size)[0]
            for shares, size in (
                ([0.0], 6),
                ([0.0], 7),
                ([1.0], 5),
                ([1.0], 6),
                ([0.5], 10),
                ([0.5], 11),
                ([0.4], 11),
                ([0.5], 12),
            )
        ],
        "halves": [
            validate(train, test, [share], 2, np.random.default_rng(1))[0].truth
            for share in (0.0, 0.24, 0.25, 0.5, 0.74, 0.75, 1.0)
        ],
    }


# --- strata ------------------------------------------------------------------------------------


@case(seeds=3, rtol=1e-6, atol=1e-9, covers=["src/strata.py"])
def peers_of_random_embeddings(tree, rng):
    nearest = tree.load("strata").nearest_peer
    made = [rng.numpy.normal(size=shape) for shape in ((2, 3), (6, 4), (15, 2), (4, 1))]
    twins = rng.numpy.normal(size=(5, 3))
    twins[4] = twins[1]
    zero = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    before = made[1].copy()
    return {
        "embeddings": made,
        "distances": [nearest(e) for e in made],
        "scaled": nearest(made[1] * np.array([[1.0], [2.0], [0.1], [30.0], [1.0], [1.0]])),
        "twins": nearest(twins) + 1.0,
        "opposite": nearest(np.array([[1.0, 0.0], [-2.0, 0.0]])),
        "untouched": bool(np.array_equal(before, made[1])),
        "refused": [raises(lambda e=e: nearest(e)) for e in (zero, made[0][:1], made[0][:0], zero[::2])],
    }


@case(seeds=3, rtol=1e-6, atol=1e-6, covers=["src/strata.py"])
def halves_of_random_papers(tree, rng):
    contrast = tree.load("strata").contrast_halves
    runs = []
    for papers_count in (2, 5, 6, 9):
        values = rng.numpy.normal(size=papers_count)
        holes = values.copy()
        holes[rng.numpy.random(papers_count) < 0.3] = NAN
        log_p, log_q = log_likelihoods(rng, 50)
        papers = rng.numpy.integers(0, papers_count, 50)
        runs.append(
            {
                "values": values,
                "papers": papers,
                "log_p": log_p,
                "log_q": log_q,
                "contrast": list(contrast(values, papers, log_p, log_q)),
                "holes": list(contrast(holes, papers, log_p, log_q)),
            }
        )
    return runs


@case(seeds=1, rtol=1e-6, atol=1e-6, covers=["src/strata.py"])
def halves_at_the_edges(tree, rng):
    contrast = tree.load("strata").contrast_halves
    log_p, log_q = log_likelihoods(rng, 6)
    papers = np.array([0, 0, 1, 2, 2, 2])

    def halves(*values):
        return list(contrast(np.array(values), papers, log_p, log_q))

    return {
        "alone": [float(tree.load("mixture").estimate_alpha(log_p[k], log_q[k])) for k in
                  (slice(0, 2), slice(2, 3), slice(3, 6), slice(0, 3), slice(2, 6), slice(0, 6))],
        "ties": halves(1.0, 1.0, 1.0),
        "low": halves(0.0, 1.0, 1.0),
        "middle": halves(0.0, 1.0, 2.0),
        "unknown": halves(NAN, NAN, NAN),
        "one": halves(NAN, 5.0, NAN),
        "hole": halves(NAN, 1.0, 2.0),
        "infinite": halves(-INF, 0.0, INF),
        "silent": halves(1.0, 2.0, 3.0, 4.0, 5.0),
        "silent below": halves(9.0, 9.0, 9.0, 1.0, 1.0, 1.0, 1.0),
    }
