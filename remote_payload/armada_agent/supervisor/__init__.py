"""The process that starts one job and watches it until its end."""
