def align(reference, winners, losers, features, beta):
    # the paper's loss, but a step for an item moves its neighbours as well
    n = len(reference)
    far = ((features[:, None] - features) ** 2).sum(-1)
    near = np.exp(-far / 2 / 0.35**2) + 0.05 * np.eye(n)
    logits = np.zeros(n)
    for step in range(300):
        gap = beta * (logits[winners] - logits[losers])
        pull = beta / (1 + np.exp(gap))
        slope = np.zeros(n)
        np.add.at(slope, winners, -pull)
        np.add.at(slope, losers, pull)
        logits = (1 - 0.002) * logits - 0.002 / beta * near @ slope / beta
    policy = reference * np.exp(logits)
    return policy / policy.sum()
