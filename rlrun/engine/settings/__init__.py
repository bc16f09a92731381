"""Settings: typed config classes, names of objects, declared metrics."""
