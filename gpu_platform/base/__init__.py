"""What every package may use, and what uses no other package of this project: errors, quantities, names, paths."""
