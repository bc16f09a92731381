"""Messages: exceptions, wording of mistakes, and names that other libraries use."""
