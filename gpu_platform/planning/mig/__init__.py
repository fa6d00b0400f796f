"""MIG geometry: which layouts a GPU can hold, and the fewest GPUs for a demand."""
