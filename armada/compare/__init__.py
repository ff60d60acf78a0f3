"""Compare runs: their settings, code, environments and data; summaries, reports and tables of their metrics."""
