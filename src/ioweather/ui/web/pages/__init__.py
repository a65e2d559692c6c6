"""The pages: each comes at once and fetches its slow parts, which the same module answers."""
