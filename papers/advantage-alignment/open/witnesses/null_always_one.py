def play(episode, payoffs, theirs, discount):
    while True:
        episode(np.full(5, 0.0))
