"""A GPU platform on Kubernetes from one stack file: spec, catalogue, planning and engines."""
