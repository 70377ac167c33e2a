"""The programs of turbocql."""
