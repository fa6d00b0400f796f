"""`gpu-platform place`: simulates where kube-scheduler would place pods; prints text, JSON or a page."""
