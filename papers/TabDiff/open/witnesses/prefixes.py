def sample(conditionals, rows, columns, categories, budget):
    # column by column; rows that agree so far share a question. When too little is left, the remaining columns in equal groups
    table = np.full((rows, columns), categories)
    left, todo = budget, list(np.random.permutation(columns))
    while todo:
        distinct, which = np.unique(table, axis=0, return_inverse=True)
        which = which.ravel()
        calls = left // max(len(distinct), rows // 2) if len(distinct) > rows // 2 else len(todo)
        take = 1 if calls >= len(todo) else -(-len(todo) // max(calls, 1))
        take = max(1, min(take, len(todo)))
        p = conditionals(distinct)[which]
        left -= len(distinct)
        if left < rows:
            take = len(todo)
        for j in todo[:take]:
            v = np.random.random((rows, 1))
            table[:, j] = np.minimum((p[:, j].cumsum(-1) <= v).sum(-1), categories - 1)
        todo = todo[take:]
    return table
