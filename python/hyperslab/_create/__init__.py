"""Opening and creating arrays and groups."""
