"""The programs that are measured, a file or folder for each driver, in whose environment they run."""
