"""The widgets of which screens are made."""
