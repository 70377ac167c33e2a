"""Runs the programs of examples/cookbook, which docs/cookbook shows, and checks their effects."""
