"""One module for each rule of the advisor; `catalogue` has their order."""
