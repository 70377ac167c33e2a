"""Whole tables: loads, scans, unloads and comparisons, with checkpoints and progress."""
