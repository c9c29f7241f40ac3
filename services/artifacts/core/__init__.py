"""Pure rules of the artifacts service: catalog, ranking, cards, references, plan of a prune."""
