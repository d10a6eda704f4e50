def tell(train, reveal, images, levels):
    # counts by the pixel to the left, in its row
    side = train.shape[1]
    seen = np.zeros((images, side), dtype=int)
    for pixel in range(side * side):
        row, column = divmod(pixel, side)
        counts = np.full((levels, levels), 0.5)
        if column:
            np.add.at(counts, (train[:, row, column - 1], train[:, row, column]), 1)
            p = counts[seen[:, column - 1]]
        else:
            p = counts + np.bincount(train[:, row, 0], minlength=levels)
            p = np.repeat(p[:1], images, 0)
        seen[:, column] = reveal(pixel, p / p.sum(1, keepdims=True))
