"""Why, who, health, events, now: what happened to a run or a file system, and what caused it."""
