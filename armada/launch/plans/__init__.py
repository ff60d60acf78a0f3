"""Plans of each task: what is sent, which environment, which command, which checks. One module for each task."""
