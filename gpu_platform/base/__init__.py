"""Modules that every package may use and that import no other package of this project: errors, quantities, names,
paths.
"""
