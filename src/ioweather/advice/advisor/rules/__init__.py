"""The rules of the advisor, by what they look at; `catalogue` has their order."""
