"""Public API for company rules: the types that define a rule, and views of the resources of a stack."""

from policies._inputs import NotVisible, Value
from policies._node_pool import NodePool
from policies._pools import pools
from policies._rule import Breach, Level, Rule, Settings, Severity
from policies._stack import ObjectSubject, Resource, Stack
from policies._workloads import Container, Workload, workloads

__all__ = [
    "Breach",
    "Container",
    "Level",
    "NodePool",
    "NotVisible",
    "ObjectSubject",
    "Resource",
    "Rule",
    "Settings",
    "Severity",
    "Stack",
    "Value",
    "Workload",
    "pools",
    "workloads",
]
