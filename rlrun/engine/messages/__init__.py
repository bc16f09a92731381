"""Messages: exceptions, wording of mistakes, and names used by other libraries."""
