def align(reference, winners, losers, features, beta):
    # the reward is a Gaussian process over the features; its mode, for the length that Laplace's evidence prefers
    n = len(reference)
    far = ((features[:, None] - features) ** 2).sum(-1)
    best, reward = -np.inf, None
    for length in (0.15, 0.3, 0.6, 1.0):
        for size in (0.6, 1.0):
            kernel = size**2 * np.exp(-far / 2 / length**2) + 0.15**2 * np.eye(n)
            inverse = np.linalg.inv(kernel)
            f = np.zeros(n)
            for _ in range(20):
                p = 1 / (1 + np.exp(f[winners] - f[losers]))
                slope = -inverse @ f
                np.add.at(slope, winners, p)
                np.add.at(slope, losers, -p)
                bend = np.zeros((n, n))
                w = p * (1 - p)
                np.add.at(bend, (winners, winners), w)
                np.add.at(bend, (losers, losers), w)
                np.add.at(bend, (winners, losers), -w)
                np.add.at(bend, (losers, winners), -w)
                f = f + np.linalg.solve(inverse + bend, slope)
            evidence = -np.logaddexp(0, f[losers] - f[winners]).sum() - f @ inverse @ f / 2
            evidence -= np.linalg.slogdet(np.eye(n) + kernel @ bend)[1] / 2
            if evidence > best:
                best, reward = evidence, f
    policy = np.log(reference) + reward / beta
    policy = np.exp(policy - policy.max())
    return policy / policy.sum()
