"""The figures to reach, for those who work on turbocql: `python -m bench report --targets`."""
