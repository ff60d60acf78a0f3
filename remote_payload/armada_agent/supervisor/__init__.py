"""The process that starts one job and watches it to its end."""
