"""What admission rules cost the API server, whose cost limits do not see all of it."""

from __future__ import annotations

import json

from gpu_platform.planning.teams.routes import route_rules
from gpu_platform.stack.team import Team
from tests.planning.conftest import team


def test_each_annotation_costs_one_call_and_no_operator() -> None:
    # With 50 operators for each, a Service of 5,000 annotations took seven seconds of the API server.
    declared = Team.model_validate_json(json.dumps(team()))
    rule = next(one for one in route_rules(declared) if one.id == "route-annotation")
    assert not any(operator in rule.expression for operator in ("||", "&&", "?:"))
    assert rule.expression.count("matches(") == 1
