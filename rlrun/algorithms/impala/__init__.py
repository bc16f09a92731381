"""IMPALA and APPO: asynchronous actor-critics with V-trace."""
