"""Serving arrays over HTTP."""
