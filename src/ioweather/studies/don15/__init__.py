"""How long single requests take, and how far the tail reaches (don15)."""
