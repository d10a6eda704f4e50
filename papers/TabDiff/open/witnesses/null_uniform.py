def sample(conditionals, rows, columns, categories, budget):
    return np.random.randint(0, categories, (rows, columns))
