"""Lustre Monitoring Tool archives: pyLMT's HDF5 (h5lmt), TOKIO time series (tts), and LMT's own database (lmt)."""
