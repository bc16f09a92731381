"""Deployment: saved policies as HTTP servers, as files for other runtimes, and as folders to share."""
