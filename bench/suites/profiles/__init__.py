"""The functions in which the instructions of a case or a request are executed."""
