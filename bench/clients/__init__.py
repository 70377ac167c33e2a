"""The programs that are measured: a file or a folder for each driver, run where its driver is."""
