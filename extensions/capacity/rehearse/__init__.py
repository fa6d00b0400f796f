"""`gpu-platform rehearse`: simulates when the jobs in a trace would start, and prints text, JSON or HTML."""
