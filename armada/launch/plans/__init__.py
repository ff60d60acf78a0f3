"""How each task is planned: what travels, which environment, which command, what is checked. One module a task."""
