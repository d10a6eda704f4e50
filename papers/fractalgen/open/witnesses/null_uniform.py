def tell(train, reveal, images, levels):
    for pixel in range(train[0].size):
        reveal(pixel, np.full((images, levels), 1 / levels))
