"""GPU platform on Kubernetes from a stack file: spec, catalogue, planning, engines and command line."""
