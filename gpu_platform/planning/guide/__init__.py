"""Decide what members of a team are told: how to log in, what to ask for where, and workloads that fit."""

from gpu_platform.planning.guide.guides import guide_of, plan, plan_one
from gpu_platform.planning.guide.section import ExamplePlan, GuidePlan, GuidePool

__all__ = ["ExamplePlan", "GuidePlan", "GuidePool", "guide_of", "plan", "plan_one"]
