"""`gpu-platform rehearse`: when the jobs of a trace would start on a stack, as text, JSON and a page."""
