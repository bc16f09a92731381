"""How a policy departs from what its network says while it collects, a file per kind of exploration."""
