"""First experiment files, drafted from a script or from a folder's data. Scripts are parsed, never executed or imported."""
