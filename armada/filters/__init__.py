"""Filter expressions over runs, such as `loss<0.4 tag:arc lr>1e-5 host:a100*`, and the values that columns show.

Only `run_facts` reads, from the store; the others get the runs and what the expression says it needs.
"""
