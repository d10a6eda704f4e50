"""Hidden: corpora whose words depend on each other, and whose topics shift; the share of machine text is known."""

import numpy as np

from rcb_env.judging import Refused, array, problems

FEEDBACK, FINAL = 8, 24
CORPORA, MOST = 6, 0.4


def _odds(p):
    return np.log(p / (1 - p))


class _World:
    """Topics, a style of machines, and people some of whom write a little like machines."""

    def __init__(self, r):
        self.r = r
        self.words, self.topics = int(r.integers(60, 120)), int(r.integers(4, 9))
        common = _odds(np.exp(r.uniform(np.log(0.02), np.log(0.35), self.words)))
        self.topic = common + r.normal(0, 1.0, (self.topics, self.words)) * (
            r.random(self.words) < 0.6
        )
        self.style = r.normal(0, r.uniform(0.5, 1.0), self.words) * (r.random(self.words) < 0.35)
        self.spread = r.uniform(0.3, 0.7)  # of the strength of a style, between texts
        self.human = r.uniform(0.0, 0.3)  # of people
        self.direction = r.normal(0, 0.8, (3, self.words))  # habits that have nothing to do with it

    def mix(self, sharpness):
        return self.r.dirichlet(np.full(self.topics, sharpness))

    def texts(self, n, mix, machine):
        r = self.r
        topic = self.topic[r.choice(self.topics, n, p=mix)]
        strength = np.exp(r.normal(0, self.spread, n)) if machine else r.exponential(self.human, n)
        habits = r.normal(size=(n, 3)) @ self.direction
        odds = topic + strength[:, None] * self.style + habits
        return r.random((n, self.words)) < 1 / (1 + np.exp(-odds))


def _cost(submission, rng, shift):
    r = rng.numpy
    world = _World(r)
    mix = world.mix(4.0)
    human, machine = world.texts(600, mix, False), world.texts(600, mix, True)
    errors = []
    for _ in range(CORPORA):
        now = mix if not shift else 0.4 * mix + 0.6 * world.mix(1.0)
        n = 600
        k = int(round(MOST * r.random() ** 2 * n))  # drawn, in no order: calls may be counted
        corpus = np.concatenate([world.texts(n - k, now, False), world.texts(k, now, True)])
        found = array(
            submission.call(
                "share", human=human, machine=machine, corpus=corpus[r.permutation(n)]
            ),
            shape=(),
            name="the share",
        )
        if not 0 <= found <= 1:
            raise Refused(f"the share is {found}, not between 0 and 1")
        errors.append(abs(float(found) - k / n))
    return float(np.mean(errors))


@problems(feedback=FEEDBACK, final=FINAL, least=1e-4)
def dependent_words(submission, rng):
    return _cost(submission, rng, False)


@problems(feedback=FEEDBACK, final=FINAL, least=1e-4)
def topic_shift(submission, rng):
    return _cost(submission, rng, True)
