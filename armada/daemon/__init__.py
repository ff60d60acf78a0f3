"""The daemon: one process at home that watches hosts, syncs on a schedule and sends notifications.

If it is killed at any instruction, the next daemon continues its work.
"""
