"""`gpu-platform place`: simulates where kube-scheduler would place pods, and prints text, JSON or an HTML page."""
