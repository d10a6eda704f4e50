def unlearned(network, data, forget, share, points, times, budget):
    # data that are likely to stay have weights; where much is forgotten, what they say counts for more than the network
    t = times[:, None]
    gamma = np.sqrt(1 - t**2)
    d = points.shape[1]

    def logs_of(at, scale, spread, sample):
        away = at[:, None] - scale[..., None] * sample
        return -(away**2).sum(2) / 2 / spread - d / 2 * np.log(spread), away

    def total(logs):
        return np.logaddexp.reduce(logs, axis=1) - np.log(logs.shape[1])

    still, h = np.ones((len(data), 1)), np.full((len(data), 1), 0.15**2)
    log_all, log_gone = (total(logs_of(data, still, h, each)[0]) for each in (data, forget))
    gone_share = np.minimum(share * np.exp(np.minimum(log_gone - log_all, 5)), 1.0)
    stays = np.maximum(1 - gone_share, 1e-4)

    variance = t**2 + (gamma * 0.08) ** 2
    logs_x, away_x = logs_of(points, gamma, variance, data)
    logs_a, away_a = logs_of(points, gamma, variance, forget)

    def mean(logs, away):
        p = np.exp(logs - logs.max(1, keepdims=True))
        return np.einsum("rk,rkd->rd", p / p.sum(1, keepdims=True), away) * t / variance

    log_kept = total(logs_x + np.log(stays)) - np.log(stays.mean())
    part = 1 / (1 + np.exp(np.clip(log_kept - total(logs_a) + np.log((1 - share) / share), -30, 30)))
    part = part[:, None]
    kept, gone = mean(logs_x + np.log(stays), away_x), mean(logs_a, away_a)
    said = network(np.hstack([points, t]))
    subtracted = (said - np.minimum(part, 0.95) * gone) / (1 - np.minimum(part, 0.95))
    trust = (1 - part) ** 2
    trust = trust / (trust + 0.5 * part**2)
    return trust * subtracted + (1 - trust) * kept
