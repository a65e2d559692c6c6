"""Making data whose truth is known."""
