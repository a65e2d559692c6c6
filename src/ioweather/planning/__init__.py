"""How long I/O will take, and when and where to do it: forecast, predict, relieve."""
