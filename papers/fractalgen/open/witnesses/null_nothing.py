def tell(train, reveal, images, levels):
    return None
