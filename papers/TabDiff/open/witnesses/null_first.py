def sample(conditionals, rows, columns, categories, budget):
    return np.zeros((rows, columns), dtype=int)
