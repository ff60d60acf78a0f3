"""Compare what a run would be on several hosts, and choose one of them. Nothing is started here."""
