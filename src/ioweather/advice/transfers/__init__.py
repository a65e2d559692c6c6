"""How long a transfer takes, and over how many targets to stripe it."""
