"""Built-in algorithms, one readable file each, and what they share. This imports none of them."""
