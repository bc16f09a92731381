"""External simulators that connect as clients: protocol, server of episodes, and the client files to copy."""
