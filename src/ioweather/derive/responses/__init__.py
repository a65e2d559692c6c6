"""Response times reduced per interval, and the slowdown that users feel."""
