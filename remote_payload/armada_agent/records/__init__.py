"""What is written down about a run: state, events, the end, a request to stop, and whether its folder still is the run's."""
