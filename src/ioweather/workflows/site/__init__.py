"""The installation itself: is it healthy, what does it describe, a demonstration, a setup for one machine."""
