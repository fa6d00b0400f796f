"""Decide the guide of each team: login commands, the pools and resources that it may request, and examples."""

from gpu_platform.planning.guide.guides import GuidedPlatform, guide_of, plan, plan_one
from gpu_platform.planning.guide.section import ExamplePlan, GuidePlan, GuidePool

__all__ = ["ExamplePlan", "GuidePlan", "GuidePool", "GuidedPlatform", "guide_of", "plan", "plan_one"]
