"""Rebuild a lost or damaged store from the run folders on hosts and the files at home."""
