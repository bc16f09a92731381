"""Groups of settings that several families share."""
