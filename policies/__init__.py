"""The CrossGuard policy pack: rules that prevent the most common mistakes with GPUs on Kubernetes.

The rules check resources instead of the plan, and import nothing from gpu_platform.planning. The same code runs in
three places: `pulumi preview --policy-pack policies`, `pulumi policy analyze --file`, and `evaluate` in this
package, which does not need the Pulumi CLI.
"""

from policies._analysis import Configured, analyze, configure, evaluate, rules
from policies._evaluate import NotChecked, PolicyReport, Violation
from policies._own import OWN_ID
from policies._own import own_rules as own_rules_of
from policies._rule import Exemption, Level, Rule, Settings, Severity

__all__ = [
    "OWN_ID",
    "Configured",
    "Exemption",
    "Level",
    "NotChecked",
    "PolicyReport",
    "Rule",
    "Settings",
    "Severity",
    "Violation",
    "analyze",
    "configure",
    "evaluate",
    "own_rules_of",
    "rules",
]
