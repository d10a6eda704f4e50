def tell(train, reveal, images, levels):
    # counts by the pixel to the left and the one above
    side = train.shape[1]

    def context(known, row, column):
        left = known[:, row, column - 1] if column else np.full(len(known), levels)
        above = known[:, row - 1, column] if row else np.full(len(known), levels)
        return left * (levels + 1) + above

    counts = np.full(((levels + 1) ** 2, levels), 0.5)
    for row in range(side):
        for column in range(side):
            np.add.at(counts, (context(train, row, column), train[:, row, column]), 1)
    seen = np.zeros((images, side, side), dtype=int)
    for row in range(side):
        for column in range(side):
            p = counts[context(seen, row, column)]
            p = p / p.sum(1, keepdims=True)
            seen[:, row, column] = reveal(row * side + column, p)
