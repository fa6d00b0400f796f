"""What every node must turn out to be, and the validation gate."""
