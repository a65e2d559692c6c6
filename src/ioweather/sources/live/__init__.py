"""Live sources: they measure on this machine, in a child process of the agent. Standard library only."""
