"""The programs that are measured: a file or folder for each driver, run in its environment."""
