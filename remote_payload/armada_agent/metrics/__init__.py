"""Follow the metrics of jobs that write none for armada, and write them down as the bundled payload does."""
