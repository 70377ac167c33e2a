"""Files of Parquet, CSV, JSON lines and Arrow IPC, read and written in bounded memory."""
