"""Work on all blocks of an array: maps, statistics, pyramids."""
