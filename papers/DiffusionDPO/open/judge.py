"""Hidden: rewards over a set of items, and people who compare two of them at a time."""

import numpy as np

from rcb_env.judging import Refused, array, problems

FEEDBACK, FINAL = 8, 28
ITEMS = 60


def _cost(submission, r, reward, features):
    pairs = int(np.exp(r.uniform(np.log(400), np.log(3000))))
    beta = float(np.exp(r.uniform(np.log(0.3), np.log(1.0))))
    logs = r.normal(0, 0.8, ITEMS)
    reference = np.exp(logs - logs.max())
    reference /= reference.sum()
    drawn = np.array([r.choice(ITEMS, 2, replace=False, p=reference) for _ in range(pairs)])
    gap = reward[drawn[:, 0]] - reward[drawn[:, 1]]
    first = r.random(pairs) < 1 / (1 + np.exp(-gap))
    drawn = np.where(first[:, None], drawn, drawn[:, ::-1])
    tilted = np.log(reference) + reward / beta
    tilted = np.exp(tilted - tilted.max())
    tilted /= tilted.sum()
    found = array(
        submission.call(
            "align",
            reference=reference,
            winners=drawn[:, 0].copy(),
            losers=drawn[:, 1].copy(),
            features=features,
            beta=beta,
        ),
        shape=(ITEMS,),
        name="the distribution",
    )
    if (found < 0).any() or abs(found.sum() - 1) > 1e-6:
        raise Refused("it is no distribution: not negative, with the sum 1")
    return float(tilted @ np.log(tilted / np.maximum(found, 1e-9)))


@problems(feedback=FEEDBACK, final=FINAL, least=1e-4)
def smooth(submission, rng):
    """A reward that changes slowly with the features."""
    r = rng.numpy
    features = r.uniform(-1, 1, (ITEMS, 2))
    length = r.uniform(0.4, 1.2)
    far = ((features[:, None] - features) ** 2).sum(-1)
    kernel = np.exp(-far / 2 / length**2) + 1e-8 * np.eye(ITEMS)
    reward = r.uniform(0.7, 1.3) * np.linalg.cholesky(kernel) @ r.normal(size=ITEMS)
    return _cost(submission, r, reward, features)


@problems(feedback=FEEDBACK, final=FINAL, least=1e-4)
def groups(submission, rng):
    """Items come in groups that differ, and differ a little within them."""
    r = rng.numpy
    group = r.integers(0, 6, ITEMS)
    features = r.uniform(-1, 1, (6, 2))[group] + 0.08 * r.normal(size=(ITEMS, 2))
    reward = r.normal(0, 0.9, 6)[group] + r.normal(0, 0.3, ITEMS)
    return _cost(submission, r, reward, features)
