"""Settings: typed config classes, import of objects by name, declared metrics."""
