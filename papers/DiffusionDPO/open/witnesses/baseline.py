def align(reference, winners, losers, features, beta):
    return reference
