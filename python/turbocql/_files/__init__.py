"""Reads and writes files of Parquet, CSV, JSON lines and Arrow IPC, in bounded memory."""
