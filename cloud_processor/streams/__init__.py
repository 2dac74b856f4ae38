"""The Faust shells: they move records and perform what the core decided."""
