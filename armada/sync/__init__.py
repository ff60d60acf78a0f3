"""Bring checkpoints home: fetch into staging, verify every byte, publish by a rename."""
