"""The dashboard in a browser: textual-serve's terminal behind armada's own access control, because textual-serve has none."""
