def distribution(logits):
    return np.full(logits.shape, 1.0 / logits.shape[1])
