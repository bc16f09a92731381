"""Groups of settings that several families of algorithms share."""
