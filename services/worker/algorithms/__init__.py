"""Our own algorithms: one readable file each, and the few nouns they share. This imports none of them."""
