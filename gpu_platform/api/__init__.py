"""What an extension may use of this program, a module for each question.

Beside it: `gpu_platform.base`, the facts of `gpu_platform.catalog`, the options of `gpu_platform.cli.options`. An
import contract holds the direction: the core imports no extension, an extension nothing else of the core.
"""
