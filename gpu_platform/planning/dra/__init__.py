"""Dynamic Resource Allocation: device classes, claims and what the DRA driver requires."""
