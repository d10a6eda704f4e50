def tell(train, reveal, images, levels):
    # one hidden layer that sees three pixels around, the place, and the levels that the image has had so far
    side, reach, symbols = train.shape[1], 3, levels + 1
    around = [(-a, b) for a in range(1, reach + 1) for b in range(-reach, reach + 1)]
    around += [(0, -b) for b in range(1, reach + 1)]

    def framed(known):
        out = np.full((len(known), side + reach, side + 2 * reach), levels)
        out[:, reach:, reach:-reach] = known
        return out

    def inputs(frame, row, column):
        cells = np.stack([frame[:, row + reach + a, column + reach + b] for a, b in around], 1)
        before = frame[:, reach:, reach:-reach].reshape(len(frame), -1)[:, : row * side + column]
        shares = np.stack([(before == v).sum(1) for v in range(levels)], 1) / (before.shape[1] + 2)
        place = np.zeros((len(frame), 2 * side))
        place[:, [row, side + column]] = 1
        return np.hstack([np.eye(symbols)[cells].reshape(len(frame), -1), place, 2 * shares])

    places = [(i, j) for i in range(side) for j in range(side)]
    frame = framed(train)
    x = np.concatenate([inputs(frame, i, j).astype(np.float32) for i, j in places])
    y = np.concatenate([train[:, i, j] for i, j in places])
    hidden, steps = 64, 450
    sizes = [(x.shape[1], hidden), (hidden,), (hidden, levels), (levels,)]
    weights = [np.random.normal(0, 0.09, s).astype(np.float32) if len(s) == 2 else np.zeros(s, np.float32) for s in sizes]
    first, second = [np.zeros_like(w) for w in weights], [np.zeros_like(w) for w in weights]

    def forward(rows):
        h = np.maximum(rows @ weights[0] + weights[1], 0)
        logits = h @ weights[2] + weights[3]
        p = np.exp(logits - logits.max(1, keepdims=True))
        return h, p / p.sum(1, keepdims=True)

    for step in range(1, steps + 1):
        rows = np.random.randint(0, len(y), 400)
        h, p = forward(x[rows])
        p[np.arange(len(rows)), y[rows]] -= 1
        p /= len(rows)
        back = (p @ weights[2].T) * (h > 0)
        slopes = [x[rows].T @ back, back.sum(0), h.T @ p, p.sum(0)]
        rate = 0.01 * min(1.0, 2 - 2 * step / (steps + 1))
        for w, m, v, g in zip(weights, first, second, slopes):
            m += 0.1 * (g - m)
            v += 0.01 * (g * g - v)
            w -= rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.99**step)) + 1e-7) + 1e-5 * w
    frame = framed(np.full((images, side, side), levels))
    for i, j in places:
        p = forward(inputs(frame, i, j).astype(np.float32))[1].astype(float) + 1e-4
        frame[:, i + reach, j + reach] = reveal(i * side + j, p / p.sum(1, keepdims=True))
