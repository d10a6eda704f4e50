"""Hidden: next-token distributions, and the logits in which a model tells them badly."""

import numpy as np

from rcb_env.judging import Refused, array, problems

FEEDBACK, FINAL = 6, 36
ROWS, WORDS = 96, 400


def _truths(r):
    """Distributions of all kinds of certainty: a head, and a tail that falls with the rank."""
    truths = np.empty((ROWS, WORDS))
    for row in range(ROWS):
        slope = r.uniform(1.1, 2.5)
        head = int(np.exp(r.uniform(0, np.log(40))))
        logs = -slope * np.log(np.maximum(np.arange(WORDS) - head + 2, 1.0))
        logs[:head] = r.normal(0.5, 0.8, head)
        logs += r.normal(0, 0.3, WORDS)
        p = np.exp(logs - logs.max())
        p[p < 1e-4 * p.max()] *= 1e-2  # what nobody would say
        truths[row] = r.permutation(p / p.sum())
    return truths


def _cost(submission, truths, logits):
    found = array(
        submission.call("distribution", logits=logits),
        shape=truths.shape,
        name="the distributions",
    )
    if (found < 0).any() or (np.abs(found.sum(1) - 1) > 1e-6).any():
        raise Refused("a row is no distribution: not negative, with the sum 1")
    return float(np.abs(found - truths).sum(1).mean() / 2)


def _said(r, logits):
    """Logits mean the same with any constant."""
    return (logits + r.normal(0, 5, (len(logits), 1))).astype(np.float32)


@problems(feedback=FEEDBACK, final=FINAL)
def noise(submission, rng):
    """Every logit is off by as much."""
    r = rng.numpy
    truths = _truths(r)
    spread = r.uniform(0.5, 1.5)
    return _cost(submission, truths, _said(r, np.log(truths) + r.normal(0, spread, truths.shape)))


@problems(feedback=FEEDBACK, final=FINAL)
def heat(submission, rng):
    """Somebody has turned up the temperature."""
    r = rng.numpy
    truths = _truths(r)
    heat = r.uniform(1.3, 2.5)
    off = r.normal(0, 0.3, truths.shape)
    return _cost(submission, truths, _said(r, (np.log(truths) + off) / heat))


@problems(feedback=FEEDBACK, final=FINAL)
def smear(submission, rng):
    """Some of the mass is smeared over the whole vocabulary, and rare words are off by more."""
    r = rng.numpy
    truths = _truths(r)
    share = r.uniform(0.1, 0.5)
    smeared = (1 - share) * truths + share / WORDS
    rare = r.uniform(0.2, 0.5) * np.log(truths.max(1, keepdims=True) / smeared) / 2
    return _cost(submission, truths, _said(r, np.log(smeared) + rare * r.normal(size=truths.shape)))
