"""An experiment onto a host: plan, preflight, provision, submit, follow."""
