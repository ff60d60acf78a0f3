"""Put what a run needs on its host, once: environments, code, data, models."""
