"""The program of the clean-up CronJob: finds what nobody needs any more, and deletes it on request.

It imports the standard library and the agent's client of the API server, and runs as a zipapp in a ConfigMap on a
stock Python image, as the node agent does. `packed.py` alone is not part of it.
"""
