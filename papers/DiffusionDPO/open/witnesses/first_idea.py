def align(reference, winners, losers, features, beta):
    # the paper's loss with smoothed labels
    logits = np.zeros(len(reference))
    for step in range(400):
        gap = beta * (logits[winners] - logits[losers])
        pull = beta * (1 / (1 + np.exp(gap)) - 0.1) / len(winners)
        slope = np.zeros_like(logits)
        np.add.at(slope, winners, -pull)
        np.add.at(slope, losers, pull)
        logits = logits - 2.0 / beta * slope
    policy = reference * np.exp(logits)
    return policy / policy.sum()
