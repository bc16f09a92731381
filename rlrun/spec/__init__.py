"""What a YAML file means: experiments, search spaces, source positions."""
