def share(human, machine, corpus):
    # the paper's likelihood with the odds of a logistic regression, which knows that words depend on each other
    h, m, c = (each.astype(float) for each in (human, machine, corpus))

    def fit(x, y):
        x = np.hstack([x, np.ones((len(x), 1))])
        w = np.zeros(x.shape[1])
        ridge = 8.0 * np.eye(len(w))
        ridge[-1, -1] = 1e-6
        for _ in range(8):
            p = 1 / (1 + np.exp(-x @ w))
            w = w - np.linalg.solve((x.T * (p * (1 - p))) @ x + ridge, x.T @ (p - y) + ridge @ w)
        return w

    def held_out():
        odds = []
        for part in (0, 1):
            w = fit(np.concatenate([h[part::2], m[part::2]]), np.repeat([0.0, 1.0], [len(h[part::2]), len(m[part::2])]))
            odds.append([x @ w[:-1] + w[-1] for x in (h[1 - part :: 2], m[1 - part :: 2], c)])
        return odds

    alphas = np.linspace(0, 1, 401)[1:-1, None]
    found = []
    for of_h, of_m, of_c in held_out():
        # odds of a smoothed histogram of scores, so that they are calibrated
        edges = np.quantile(np.concatenate([of_h, of_m]), np.linspace(0, 1, 9)[1:-1])
        p = (np.bincount(np.digitize(of_h, edges), minlength=8) + 0.5) / (len(of_h) + 4)
        q = (np.bincount(np.digitize(of_m, edges), minlength=8) + 0.5) / (len(of_m) + 4)
        counts = np.bincount(np.digitize(of_c, edges), minlength=8)
        found.append(float(alphas[(np.log((1 - alphas) * p + alphas * q) @ counts).argmax(), 0]))
    return float(np.mean(found))
