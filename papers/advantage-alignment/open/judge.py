"""Hidden: repeated games of two actions against others who learn, or do not."""

import numpy as np

from rcb_env.judging import Enough, Oracle, Refused, problems

FEEDBACK, FINAL = 6, 24
LEAST = 0.01  # of a probability: everybody errs


def _value(own, other, payoff, discount):
    """Mean discounted payoff of policies (n, 5) against policies (n, 5): of action 0 at first, then after 00, 01, 10, 11, as each sees it."""
    p, q = own[:, 1:], other[:, [1, 3, 2, 4]]
    move = np.stack([p * q, p * (1 - q), (1 - p) * q, (1 - p) * (1 - q)], -1)
    a, b = own[:, :1], other[:, :1]
    first = np.concatenate([a * b, a * (1 - b), (1 - a) * b, (1 - a) * (1 - b)], 1)
    worth = np.linalg.solve(np.eye(4) - discount * move, np.broadcast_to(payoff[:, None], (len(p), 4, 1)))
    return (1 - discount) * (first[:, None] @ worth)[:, 0, 0]


def _slope(own, other, payoff, discount):
    """The derivative of the value by the own policy."""
    step = 1e-4
    tried = own + step * np.concatenate([np.eye(5), -np.eye(5)])
    values = _value(tried, np.repeat(other[None], 10, 0), payoff, discount)
    return (values[:5] - values[5:]) / (2 * step)


def _payoffs(r):
    """What a player has for CC, CD, DC, DD (its own action first): to cooperate costs it something, and gives the other more."""
    cost, gain = r.uniform(0.5, 1.0), r.uniform(1.2, 3.0)
    bend = r.uniform(-0.3, 0.3)
    return np.array([gain - cost + bend, -cost, gain, 0.0]) / (gain - cost)


def _cost(submission, r, other, answers, imitates=False):
    payoff, theirs = (_payoffs(r).reshape(2, 2) for _ in range(2))
    mine, others = r.random(2) < 0.5  # which of the actions is kind, nobody says
    if mine:
        payoff, theirs = payoff[::-1], theirs[:, ::-1]
    if others:
        payoff, theirs = payoff[:, ::-1], theirs[::-1]
    payoff, theirs = payoff.ravel(), theirs.ravel()
    discount, episodes = r.uniform(0.85, 0.97), int(r.integers(20, 61))
    state = {"other": other, "won": []}

    def play(own):
        own = np.asarray(own)
        if own.min() < 0 or own.max() > 1:
            raise Refused("a policy has probabilities, five of them")
        own = np.clip(own, LEAST, 1 - LEAST)
        met = np.clip(state["other"], LEAST, 1 - LEAST)
        state["won"].append(_value(own[None], met[None], payoff, discount)[0])
        if len(state["won"]) == episodes:
            raise Enough
        if mine != others and imitates:
            own = 1 - own[[0, 4, 3, 2, 1]]
        state["other"] = np.clip(answers(met, own, theirs, discount), LEAST, 1 - LEAST)
        return met

    submission.call(
        "play",
        episode=Oracle(play, budget=None, shape=(5,)),
        payoffs=payoff,
        theirs=theirs,
        discount=float(discount),
    )
    won = state["won"] or [0.0]
    return -float(np.mean(won + [min(won)] * (episodes - len(won))))


def _logit_step(policy, slope, rate):
    return 1 / (1 + np.exp(-(np.log(policy / (1 - policy)) + rate * slope * policy * (1 - policy))))


@problems(feedback=FEEDBACK, final=FINAL, kind="difference")
def learners(submission, rng):
    """Climbs its own value by steps in logits."""
    r = rng.numpy
    rate = 10 ** r.uniform(0.5, 2.0)

    def answers(met, own, theirs, discount):
        for _ in range(3):
            met = np.clip(_logit_step(met, _slope(met, own, theirs, discount), rate), LEAST, 1 - LEAST)
        return met

    return _cost(submission, r, r.uniform(0.2, 0.8, 5), answers)


@problems(feedback=FEEDBACK, final=FINAL, kind="difference")
def searchers(submission, rng):
    """Tries some policies near its own, and takes the best for it, or any."""
    r = rng.numpy
    width, tries = 10 ** r.uniform(-1.3, -0.3), int(r.integers(3, 20))

    def answers(met, own, theirs, discount):
        tried = np.clip(met + width * r.normal(size=(tries, 5)), LEAST, 1 - LEAST)
        tried = np.concatenate([met[None], tried])
        return tried[_value(tried, np.repeat(own[None], tries + 1, 0), theirs, discount).argmax()]

    return _cost(submission, r, r.uniform(0.0, 1.0, 5), answers)


@problems(feedback=FEEDBACK, final=FINAL, kind="difference")
def imitators(submission, rng):
    """Becomes as kind as what it meets, but never wholly, and not at once."""
    r = rng.numpy
    nature, share, pace = r.uniform(0.0, 1.0, 5), r.uniform(0.6, 0.95), r.uniform(0.1, 0.7)

    def answers(met, own, theirs, discount):
        return met + pace * (share * own + (1 - share) * nature - met)

    return _cost(submission, r, nature, answers, imitates=True)
