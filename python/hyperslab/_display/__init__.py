"""Text and HTML for people."""
