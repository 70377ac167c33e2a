"""The measured programs: a file or folder for each driver, run in the driver's environment."""
