"""Decisions about EKS: pure functions over Spec and catalogue; the cloud's own words stand in their results."""
