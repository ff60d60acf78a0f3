"""The dashboard: read the store, draw it, start operations. It connects to no host."""
