def distribution(logits):
    # min-p with another threshold
    z = logits.astype(np.float64)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p[p < 0.05] = 0.0
    return p / p.sum(axis=1, keepdims=True)
