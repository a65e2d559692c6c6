"""What benchmarks print about themselves: IOR, mdtest and IO500. One module per tool; `phases` is what they share."""
