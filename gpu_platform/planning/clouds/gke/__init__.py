"""Decisions about GKE: pure functions over Spec and catalogue; the cloud's own words stand in their results."""
