"""When a run is due, and when a disk will be full."""
