"""Commands that answer questions about a plan. The core of the program does not import them."""
