"""Groups of settings shared by several families of algorithms."""
