"""Preflight checks: find what would fail later, or silently do something else, before it costs time or money."""
