def distribution(logits):
    # nucleus: the most probable tokens until they hold nine tenths
    z = logits.astype(np.float64)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    order = np.argsort(-p, axis=1)
    ranked = np.take_along_axis(p, order, axis=1)
    ahead = np.cumsum(ranked, axis=1) - ranked
    ranked[ahead >= 0.9] = 0.0
    kept = np.zeros_like(p)
    np.put_along_axis(kept, order, ranked, axis=1)
    return kept / kept.sum(axis=1, keepdims=True)
