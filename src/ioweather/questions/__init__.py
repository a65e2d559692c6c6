"""Questions that people ask: one file and one catalogue line each. Pure."""
