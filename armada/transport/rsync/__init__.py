"""The rsync program: find it, run it, interpret its errors."""
