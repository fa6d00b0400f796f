"""`gpu-platform rehearse`: simulates when the jobs of a trace would start and prints text, JSON or a page."""
