"""Makes the documentation's pages with figures, from samples only."""
