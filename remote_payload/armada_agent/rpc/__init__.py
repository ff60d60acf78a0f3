"""Requests from home."""
