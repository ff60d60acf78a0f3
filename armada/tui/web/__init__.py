"""The dashboard in a browser: textual-serve's terminal, behind a door of armada's own, because textual-serve has none."""
