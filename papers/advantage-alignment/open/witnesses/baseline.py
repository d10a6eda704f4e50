def play(episode, payoffs, theirs, discount):
    """Play episodes until there are no more.

    Args:
        episode: a function of a policy (5,); plays an episode, and returns the policy that it met.
        payoffs, theirs: (4,), after CC, CD, DC, DD, each as its player sees it.
        discount: of a step.
    """
    logits = np.zeros(5)
    while True:
        p = 1 / (1 + np.exp(-logits))
        q = episode(p)[[0, 1, 3, 2, 4]]  # as this player sees the states
        both = np.stack([p * q, p * (1 - q), (1 - p) * q, (1 - p) * (1 - q)], -1)
        advantages = []
        for reward in (payoffs, theirs[[0, 2, 1, 3]]):
            worth = np.linalg.solve(np.eye(4) - discount * both[1:], both[1:] @ reward)
            action = reward + discount * worth
            advantages.append(action - (both @ action)[:, None])
        own, other = advantages
        visits, past = np.eye(5)[0], np.zeros(5)
        slope = np.zeros(5)
        sign = np.stack([1 - p, 1 - p, -p, -p], -1)  # derivative of the log-probability of the own action
        for step in range(60):
            weight = discount**step * both * sign
            slope += visits * (weight * own).sum(1)
            after = discount * (past[:, None] + visits[:, None] * own) * both
            past = np.append(0.0, after.sum(0))
            visits = np.append(0.0, (visits[:, None] * both).sum(0))
        logits = np.clip(logits + 1.0 * slope, -5, 5)
