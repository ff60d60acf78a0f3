"""The process that starts one job and sees it to its end."""
