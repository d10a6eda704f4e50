"""A table of categorical columns from few questions to a model of masked rows.

task.md says what is to be written, and how it is measured.
"""

import numpy as np


# <paper2code name="sampler of a table">
def sample(conditionals, rows, columns, categories, budget):
    """Draw a table.

    Args:
        conditionals: a function of rows, (columns,) or (any number, columns), whose entries are categories, or `categories`
            for a mask; returns the probabilities of the categories in each column, one dimension more.
        rows, columns, categories: the table's size, and how many categories each column has.
        budget: for how many rows `conditionals` may be asked.

    Returns:
        Categories, int, (rows, columns).
    """
    steps = budget // rows
    table = np.full((rows, columns), categories)
    for step in range(steps):
        t, s = 1 - step / steps, 1 - (step + 1) / steps
        more = min(t + t / steps, 1.0)  # a little back, so that what was said can be said anew
        table[np.random.random(table.shape) >= (1 - more) / max(1 - t, 1e-12)] = categories
        p = conditionals(table)
        v = np.random.random((rows, columns, 1))
        drawn = np.minimum((p.cumsum(-1) <= v).sum(-1), categories - 1)
        turns = (table == categories) & (np.random.random(table.shape) >= s / more)
        table[turns] = drawn[turns]
    return table
# </paper2code name="sampler of a table">
