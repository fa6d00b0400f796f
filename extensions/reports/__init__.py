"""Reports about a stack: AI conformance, NVIDIA recipes, the production checklist, and dashboards as a page."""
