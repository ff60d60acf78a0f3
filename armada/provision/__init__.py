"""What a run needs, put on its host once: environments, code, data, models."""
