"""Reads and writes tables in parts, for engines that run tasks in many processes."""
