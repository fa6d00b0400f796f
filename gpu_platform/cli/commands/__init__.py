"""Arguments, options and help of the commands, by theme; each command imports its own module when it is called."""
