def align(reference, winners, losers, features, beta):
    policy = np.full(len(reference), 1e-6)
    policy[0] = 1.0
    return policy / policy.sum()
