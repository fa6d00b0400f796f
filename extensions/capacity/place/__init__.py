"""`gpu-platform place`: where kube-scheduler would place pods, as text, JSON and a page."""
