"""What studies of several subjects share: default choices, intervals, small tables, runs, steps of a rollup."""
