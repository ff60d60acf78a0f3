"""Read the metrics of jobs that write none for armada, and record them as the bundled payload does."""
