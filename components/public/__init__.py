"""Components for programs of your own: plain arguments in the words of the stack file, planning inside."""
