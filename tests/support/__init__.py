"""Helpers that the tests of more than one package use."""
