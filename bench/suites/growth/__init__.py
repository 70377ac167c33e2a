"""Time and memory of a call as its size grows."""
