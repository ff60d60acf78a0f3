"""The dashboard: reads the store, draws, and starts operations; it makes no connection to a host."""
