"""How slow storage is, as its users feel it (kun19)."""
