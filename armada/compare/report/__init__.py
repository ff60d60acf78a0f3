"""Write a report of runs as one HTML file that needs nothing else."""
