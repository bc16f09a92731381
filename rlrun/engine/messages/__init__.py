"""Messages to users: exceptions, explanations of mistakes in configs, and names that other libraries use."""
