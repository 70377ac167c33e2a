"""Reads settings from text, URLs, the environment and files, and parses contact points."""
