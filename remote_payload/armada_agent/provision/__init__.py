"""What runs need before they start: contents, environments, models."""
