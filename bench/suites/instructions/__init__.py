"""The codec's instructions per call, beside those recorded."""
