def distribution(logits):
    # what a smeared floor would give is taken off, and the rest made sharper
    z = logits.astype(np.float64)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    floor = np.quantile(p, 0.9, axis=1, keepdims=True)
    p = np.maximum(p - floor, 0.0) ** 1.1
    p[np.arange(len(p)), z.argmax(axis=1)] += 1e-12
    return p / p.sum(axis=1, keepdims=True)
