"""The daemon: one process at home that watches hosts, syncs on a schedule and sends notifications.

Killed at any instruction, the next one goes on.
"""
