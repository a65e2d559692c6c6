"""What the next hours bring, and when to start."""
