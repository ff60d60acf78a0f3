"""Launch an experiment on a host: plan, preflight, provision, submit, follow."""
