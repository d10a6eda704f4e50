def share(human, machine, corpus):
    # the same with few words, drawn towards the line between people and machines; counts of the score's bins
    h, m, c = (each.astype(float) for each in (human, machine, corpus))
    gap = m.mean(0) - h.mean(0)
    error = np.sqrt(h.var(0) / len(h) + m.var(0) / len(m) + 1e-9)
    keep = np.abs(gap) / error > 2.5
    if keep.sum() < 4:
        keep = np.argsort(-np.abs(gap) / error)[:8]
    h, m, c = h[:, keep], m[:, keep], c[:, keep]
    alphas = np.linspace(0, 0.999, 500)[:, None]
    found = []
    for turn in range(4):
        order_h, order_m = np.random.permutation(len(h)), np.random.permutation(len(m))
        for cut in (0, 1):
            a, b, e, f = order_h[cut::2], order_h[1 - cut :: 2], order_m[cut::2], order_m[1 - cut :: 2]
            within = (np.cov(h[a].T) + np.cov(m[e].T)) / 2
            shrunk = 0.8 * within + 0.2 * np.diag(np.diag(within)) + 1e-4 * np.eye(len(within))
            direction = np.linalg.solve(shrunk, m[e].mean(0) - h[a].mean(0))
            s, t, u = h[b] @ direction, m[f] @ direction, c @ direction
            spread = np.sqrt((s.var() + t.var()) / 2)
            p = np.exp(-0.5 * (u - s.mean()) ** 2 / spread**2)
            q = np.exp(-0.5 * (u - t.mean()) ** 2 / spread**2)
            found.append(alphas[np.log((1 - alphas) * p + alphas * q + 1e-300).sum(1).argmax(), 0])
    return float(np.mean(found))
