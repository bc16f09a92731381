"""Messages to users: exceptions, explanations of mistakes in configs, and names used by other libraries."""
