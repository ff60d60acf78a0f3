"""Filter expressions over runs, such as `loss<0.4 tag:arc lr>1e-5 host:a100*`, and the values that columns show.

Nothing here reads a file or the store: a caller gives the runs and what the expression says it needs.
"""
