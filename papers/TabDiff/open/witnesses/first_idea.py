def sample(conditionals, rows, columns, categories, budget):
    # what the model is surest of first, as in masked image models
    steps = budget // rows
    table = np.full((rows, columns), categories)
    for step in range(steps):
        p = conditionals(table)
        v = np.random.random((rows, columns, 1))
        drawn = np.minimum((p.cumsum(-1) <= v).sum(-1), categories - 1)
        sure = np.take_along_axis(p, drawn[..., None], -1)[..., 0]
        sure[table < categories] = -1.0
        known = columns * (step + 1) // steps - columns * step // steps
        best = np.argsort(-sure, axis=1)[:, :known]
        np.put_along_axis(table, best, np.take_along_axis(drawn, best, 1), 1)
    return table
