"""From an offer to a claimed attempt: offers, capacity, reservations, datasets, preparation."""
