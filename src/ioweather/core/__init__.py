"""The vocabulary of the house. Standard library only: nothing here opens a lake, draws a figure or fits a curve."""
