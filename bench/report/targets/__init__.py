"""The targets of turbocql's figures, for its developers: `python -m bench report --targets`."""
