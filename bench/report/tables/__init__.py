"""The tables of each suite, as lines of Markdown."""
