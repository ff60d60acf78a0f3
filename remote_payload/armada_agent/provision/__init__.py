"""Say what this host has, and prepare what runs need: contents, environments, models."""
