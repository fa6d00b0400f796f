"""Arguments, options and help texts of the commands, by topic.

A command imports its module only when it is called.
"""
