def play(episode, payoffs, theirs, discount):
    # tit for tat, as if action 0 were kind
    while True:
        episode(np.array([1.0, 1.0, 0.0, 1.0, 0.0]))
