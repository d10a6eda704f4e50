def share(human, machine, corpus):
    # logistic regression; then the share under which the mean of its probabilities is what it is, by two-fold rates
    h, m, c = (each.astype(float) for each in (human, machine, corpus))

    def fit(x, y):
        x = np.hstack([x, np.ones((len(x), 1))])
        w = np.zeros(x.shape[1])
        ridge = 5.0 * np.eye(len(w))
        ridge[-1, -1] = 1e-6
        for _ in range(8):
            p = 1 / (1 + np.exp(-x @ w))
            w = w - np.linalg.solve((x.T * (p * (1 - p))) @ x + ridge, x.T @ (p - y) + ridge @ w)
        return w

    def score(w, x):
        return 1 / (1 + np.exp(-(x @ w[:-1] + w[-1])))

    found = []
    for part in (0, 1):
        train = np.concatenate([h[part::2], m[part::2]])
        w = fit(train, np.repeat([0.0, 1.0], [len(h[part::2]), len(m[part::2])]))
        low, high = score(w, h[1 - part :: 2]).mean(), score(w, m[1 - part :: 2]).mean()
        found.append((score(w, c).mean() - low) / (high - low))
    return float(np.clip(np.mean(found), 0, 1))
