def distribution(logits):
    # a floor is taken off; how sharp to make the rest is told by the mass the head has kept over it
    z = logits.astype(np.float64)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    floor = np.quantile(p, 0.85, axis=1, keepdims=True)
    over = np.maximum(p - floor, 0.0).sum(axis=1).mean()
    power = np.clip(1.0 + 1.2 * (0.75 - over), 1.0, 1.6)
    p = np.maximum(p - floor, 0.0) ** power
    p[np.arange(len(p)), z.argmax(axis=1)] += 1e-12
    return p / p.sum(axis=1, keepdims=True)
