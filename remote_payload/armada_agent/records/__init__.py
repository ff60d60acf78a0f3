"""A run's records: state, events, its end, requests to stop it, and whether its folder is still the run's."""
