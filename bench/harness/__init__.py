"""Tools to measure with: environments, processes, turns, times, samples. Imports no driver."""
