"""API for extensions: the functions and types of this program that an extension may import, by topic.

Extensions may also import `gpu_platform.base`, the facts of `gpu_platform.catalog`, and the options of
`gpu_platform.cli.options`. Import contracts ensure that the core imports no extension, and that extensions import
nothing else from the core.
"""
