"""Existing clusters: reached by a kubeconfig; the program labels named nodes or selects them, and creates none."""
