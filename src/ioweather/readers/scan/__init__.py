"""File-system contents: a scanner of live trees, and readers of lists that other tools made.

The walking part (tally, walker, walkers, state, scanner) needs the standard library only, so that it runs on any login
or file server. `rows` and the list readers turn tallies into tables.
"""
