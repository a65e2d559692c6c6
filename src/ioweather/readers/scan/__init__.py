"""File-system contents: a scanner of live trees, and readers of lists that other tools made."""
