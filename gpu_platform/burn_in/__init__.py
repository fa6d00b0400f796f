"""Active checks of idle nodes: their program, their Jobs, and what they measured."""
