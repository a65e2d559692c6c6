"""The advisor: which patterns of I/O cost a run time, how many seconds by which model, and the line that changes it."""
