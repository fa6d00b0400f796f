"""Arguments, options and help texts of the commands, by topic.

The module of a command is imported only when the command is called.
"""
