"""Prepare what runs need: contents, environments, models."""
