"""Runs on this host: create, submit, observe, remove."""
