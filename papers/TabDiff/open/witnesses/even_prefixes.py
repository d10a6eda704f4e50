def sample(conditionals, rows, columns, categories, budget):
    # column by column as in prefixes.py, with categories spread evenly over the rows that agree
    table = np.full((rows, columns), categories)
    left, todo = budget, list(np.random.permutation(columns))
    while todo:
        order = np.lexsort(table.T[::-1])
        table = table[order]
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
            # each row takes the category that is owed most; rows are sorted, so that this is even within each group
            debt = np.zeros(categories)
            for row in range(rows):
                debt = debt + p[row, j]
                pick = int(np.argmax(debt - 1e9 * (p[row, j] <= 0)))
                table[row, j] = pick
                debt[pick] -= 1.0
        todo = todo[take:]
    return table
