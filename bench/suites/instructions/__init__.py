"""The codec's instructions per call, compared with the recorded counts."""
