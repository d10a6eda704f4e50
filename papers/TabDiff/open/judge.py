"""Hidden: joint distributions of categorical columns, their conditionals, and an exact distance of rows to them."""

import numpy as np

from rcb_env.judging import Oracle, Refused, array, problems

FEEDBACK, FINAL = 6, 20
ROWS = 500
SAME = 0.6  # how alike the kernel finds two rows for each column in which they differ


class _World:
    """A mixture of classes; in each class, columns depend on each other by pairs."""

    def __init__(self, r, classes, pairing):
        self.blocks, self.c = int(r.integers(4, 8)), int(r.integers(3, 6))
        self.m = 2 * self.blocks
        self.columns = r.permutation(self.m).reshape(self.blocks, 2)
        self.weights = r.dirichlet(np.full(classes, 2.0))
        c = self.c
        free = np.empty((self.blocks, classes, c, c))
        for b in range(self.blocks):
            one, two = r.dirichlet(np.full(c, 0.7), (2, classes))
            tied = r.random((classes, c, c)) ** 4 * one[:, :, None]
            tied /= tied.sum((1, 2), keepdims=True)
            free[b] = (1 - pairing) * one[:, :, None] * two[:, None] + pairing * tied
        self.table = 0.98 * free + 0.02 / c**2
        whole = np.zeros((self.blocks, classes, c + 1, c + 1))  # the last entry: masked
        whole[:, :, :c, :c] = self.table
        whole[:, :, c, :c], whole[:, :, :c, c] = self.table.sum(2), self.table.sum(3)
        whole[:, :, c, c] = 1.0
        self.whole = whole

    def conditionals(self, rows):
        if (rows != np.round(rows)).any() or (rows < 0).any() or (rows > self.c).any():
            raise Refused(f"a row holds something else than 0 to {self.c}")
        flat = np.atleast_2d(rows).astype(int)
        first, second = flat[:, self.columns[:, 0]], flat[:, self.columns[:, 1]]
        seen = np.stack(
            [self.whole[b][:, first[:, b], second[:, b]].T for b in range(self.blocks)]
        )  # (blocks, rows, classes)
        posterior = self.weights * seen.prod(0)
        posterior /= posterior.sum(1, keepdims=True)
        out = np.zeros((*flat.shape, self.c))
        for b, (i, j) in enumerate(self.columns):
            share = posterior / seen[b]
            given_j = self.whole[b][:, : self.c, second[:, b]]  # (classes, c, rows)
            given_i = self.whole[b][:, first[:, b], : self.c]  # (classes, rows, c)
            # What is asked is masked, so what was seen of a pair is its other column alone.
            out[:, i] = np.einsum("rl,lcr->rc", share, given_j)
            out[:, j] = np.einsum("rl,lrc->rc", share, given_i)
        known = flat < self.c
        out[known] = np.eye(self.c)[flat[known]]
        return out.reshape(*rows.shape, self.c)

    def distance(self, rows):
        """The maximum mean discrepancy, with exact expectations under the distribution."""
        c = self.c
        kernel = np.full((c, c), SAME) + (1 - SAME) * np.eye(c)
        smooth = np.einsum("blij,ip,jq->blpq", self.table, kernel, kernel)
        within = np.einsum("blij,bmij->blm", smooth, self.table).prod(0)
        inner = self.weights @ within @ self.weights
        first, second = rows[:, self.columns[:, 0]], rows[:, self.columns[:, 1]]
        cross = np.stack([smooth[b][:, first[:, b], second[:, b]] for b in range(self.blocks)])
        cross = (self.weights @ cross.prod(0)).mean()
        differ = (rows[:, None] != rows).sum(-1)
        return float(np.sqrt(max(inner - 2 * cross + (SAME**differ).mean(), 0.0)))


def _cost(submission, world, steps):
    oracle = Oracle(world.conditionals, budget=ROWS * steps, shape=(world.m,))
    found = submission.call(
        "sample",
        conditionals=oracle,
        rows=ROWS,
        columns=world.m,
        categories=world.c,
        budget=ROWS * steps,
    )
    rows = array(found, shape=(ROWS, world.m), name="the table")
    if (rows != np.round(rows)).any() or (rows < 0).any() or (rows >= world.c).any():
        raise Refused(f"the table holds something else than 0 to {world.c - 1}")
    return world.distance(rows.astype(int))


@problems(feedback=FEEDBACK, final=FINAL, least=1e-4)
def classes(submission, rng):
    """Rows come in kinds."""
    r = rng.numpy
    return _cost(submission, _World(r, int(r.integers(8, 20)), 0.3), int(r.integers(2, 5)))


@problems(feedback=FEEDBACK, final=FINAL, least=1e-4)
def pairs(submission, rng):
    """A few kinds of rows, and columns that go together by two."""
    r = rng.numpy
    return _cost(submission, _World(r, int(r.integers(2, 6)), 0.9), int(r.integers(2, 5)))
