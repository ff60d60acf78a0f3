"""Describe the host, and prepare what runs need: contents, environments, models."""
