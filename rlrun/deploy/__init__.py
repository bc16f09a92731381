"""Deployment: saved policies as servers, as files of other runtimes, and as folders to share."""
