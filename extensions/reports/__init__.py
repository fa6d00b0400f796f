"""Reports about a stack: conformance, recipes of NVIDIA, the checklist before production, dashboards as a page."""
