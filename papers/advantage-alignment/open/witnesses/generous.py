def play(episode, payoffs, theirs, discount):
    # reciprocal, and it forgives
    while True:
        episode(_answer(*_kind(payoffs, theirs), 0.15))


def _kind(payoffs, theirs):
    # which action of each gives the other more
    mine = 0 if theirs[[0, 2]].sum() > theirs[[1, 3]].sum() else 1
    others = 0 if payoffs[[0, 2]].sum() > payoffs[[1, 3]].sum() else 1
    return mine, others


def _answer(mine, others, bad):
    # kind at first and after what is kind, else with the chance `bad`
    chance = np.array([1.0] + [1.0 if last == others else bad for last in (0, 1, 0, 1)])
    return chance if mine == 0 else 1 - chance
