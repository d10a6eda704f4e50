def play(episode, payoffs, theirs, discount):
    # of all pure policies the best reply to what was met
    import itertools
    pures = np.array(list(itertools.product([0.01, 0.99], repeat=5)))
    met = episode(np.array([1.0, 1.0, 0.0, 1.0, 0.0]))
    while True:
        met = episode(pures[_worth(pures, met, payoffs, discount).argmax()])


def _worth(own, met, reward, discount):
    q = met[[0, 1, 3, 2, 4]]
    both = np.stack([own * q, own * (1 - q), (1 - own) * q, (1 - own) * (1 - q)], -1)
    solved = np.linalg.solve(np.eye(4) - discount * both[:, 1:], np.broadcast_to(reward[:, None], (len(own), 4, 1)))
    return (1 - discount) * (both[:, :1] @ solved)[:, 0, 0]
