"""What the system did: activity on a grid, during each run, sick and capped components, local time."""
