"""The program of the clean-up CronJob: finds objects that nobody needs any more, and can delete them.

It imports only the standard library and the agent's client of the API server. Like the node agent, it runs as a
zipapp in a ConfigMap on a stock Python image. The zipapp does not contain `packed.py`.
"""
