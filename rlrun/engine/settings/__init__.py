"""Typed config classes, import of objects by name, and declarations of metrics."""
