def sample(conditionals, rows, columns, categories, budget):
    # every column by itself
    p = conditionals(np.full((1, columns), categories))
    v = np.random.random((rows, columns, 1))
    return np.minimum((p.cumsum(-1) <= v).sum(-1), categories - 1)
