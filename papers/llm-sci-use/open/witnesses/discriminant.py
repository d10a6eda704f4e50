def share(human, machine, corpus):
    # means along the direction that tells the two apart best; how texts of one kind differ counts against a word
    h, m, c = (each.astype(float) for each in (human, machine, corpus))
    within = (np.cov(h.T) + np.cov(m.T)) / 2
    within += 0.01 * np.trace(within) / len(within) * np.eye(len(within))
    found = []
    for part in (0, 1):
        direction = np.linalg.solve(within, m[part::2].mean(0) - h[part::2].mean(0))
        low, high = h[1 - part :: 2].mean(0) @ direction, m[1 - part :: 2].mean(0) @ direction
        found.append((c.mean(0) @ direction - low) / (high - low))
    return float(np.clip(np.mean(found), 0, 1))
