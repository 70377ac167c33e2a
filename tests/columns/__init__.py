"""Results as columns, in an environment that has their consumers."""
