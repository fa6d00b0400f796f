"""Loads a stack by name or from Pulumi's configuration, and plans it. A single error reports every mistake."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from gpu_platform.base.errors import BadInput, Problem, did_you_mean
from gpu_platform.base.paths import stacks_dir
from gpu_platform.catalog import load_catalog
from gpu_platform.planning import EnvironmentPlan, Plan, check_apart, plan_environment, plan_team
from gpu_platform.stack import Environment, TeamStack, find_stack_file, parse_platform, read_stack_file
from gpu_platform.stack._types import is_label_value
from gpu_platform.stack.load import stack_name
from gpu_platform.stack.placeholders import with_placeholders, with_suggestions

ENVIRONMENT_FOLDER_KEY = "gpu-platform:environmentFolder"  # folder of the environment file of a team stack


@dataclass(frozen=True, slots=True)
class LoadedStack:
    """A valid stack: its name, its file, the platform object in the file, and its Plan."""

    stack: str
    path: Path
    platform: object
    plan: Plan

    @property
    def argument(self) -> str:
        """Command-line argument for this stack: its name or path."""
        return stack_argument(self.stack, self.path)

    @property
    def environment_argument(self) -> str:
        """Command-line argument for the environment of a team stack. For an environment, it is the stack's own
        argument.
        """
        if self.plan.kind == "environment":
            return self.argument
        reference = cast("Mapping[str, Any]", self.platform)["environment"]
        name = self.plan.environment_stack.rpartition("/")[2]
        return stack_argument(name, self.path.parent / (reference.get("file") or f"Pulumi.{name}.yaml"))

    def argument_of(self, other: str) -> str:
        """Return the command-line argument for another stack of the same cluster.

        It is a path if the other stack's file is in the same folder as this stack's file, and this folder is not
        the folder of stack files. Otherwise it is the name of the stack.
        """
        file = self.path.parent / f"Pulumi.{other}.yaml"
        return stack_argument(other, file) if file.is_file() else other

    @property
    def declared_kubernetes(self) -> str | None:
        """The Kubernetes version in the stack file of an environment."""
        platform = cast("Mapping[str, Any]", self.platform)
        cluster = platform.get("cluster") if self.plan.kind == "environment" else None
        return cast("Mapping[str, Any]", cluster).get("kubernetes") if isinstance(cluster, Mapping) else None


def stack_argument(stack: str, file: Path) -> str:
    """Return the command-line argument for a stack: its name, or its path if the file is outside the folder of
    stack files.

    Outside that folder, the name would stand for a different file, or for no file.
    """
    named = stacks_dir() / f"Pulumi.{stack}.yaml"
    return stack if file.resolve() == named.resolve() else shlex.quote(str(file))


def load_stack(stack: str) -> LoadedStack:
    """Read, validate and plan a stack that is given by name or path. Raises BadInput that lists every problem."""
    file = read_stack_file(find_stack_file(stack))
    problems = [*file.problems, *_problems_of_rules(file.platform)]
    try:
        plan = plan_platform(file.platform, file.stack, source=str(file.path), folder=file.path.parent)
    except BadInput as error:
        if error.source != str(file.path):
            raise
        raise BadInput(error.source, dict.fromkeys([*problems, *error.problems])) from None
    if problems:
        raise BadInput(str(file.path), problems)
    return LoadedStack(file.stack, file.path, file.platform, plan)


def _problems_of_rules(platform: object) -> tuple[Problem, ...]:
    """Return the mistakes in `policy`: company rules that cannot be loaded, and unknown rules, levels and
    settings.
    """
    policy = cast("Mapping[str, Any]", platform).get("policy") if isinstance(platform, Mapping) else None
    if not isinstance(policy, Mapping):
        return ()
    named = cast("Mapping[str, Any]", policy).get("own_rules")
    own = [str(one) for one in cast("list[object]", named)] if isinstance(named, list) else []
    rules = cast("Mapping[str, Any]", policy).get("rules")
    if not own and not rules:
        return ()
    from policies import (
        configure,  # imported here, because importing all rules takes 3 % of the time of `gpu-platform render`
    )
    from policies import rules as every_rule

    found: list[Problem] = []
    config = cast("Mapping[Any, Any]", rules) if isinstance(rules, Mapping) else {}
    given = {str(key): value for key, value in config.items()}
    try:
        every_rule(own)
    except BadInput as error:
        found += [replace(one, path=f"policy.{one.path}") for one in error.problems]
        # If the company's rules cannot be loaded, their ids are unknown. All of these ids contain a dot.
        own, given = list[str](), {key: value for key, value in given.items() if "." not in key}
    try:
        configure(given, own=own)
    except BadInput as error:
        found += [replace(one, path=f"policy.rules.{one.path}") for one in error.problems]
    return tuple(found)


def plan_platform(platform: object, stack: str, *, source: str = "", folder: Path | None = None) -> Plan:
    """Validate and plan a platform object, which comes from Pulumi's configuration or from a stack file.

    `source` is the name of the file in errors. `folder` is the folder of a team stack's environment file, by
    default the folder of stack files. Raises BadInput that lists every problem.
    """
    source = source or f"stack {stack}"
    if not is_label_value(stack):
        allowed = "a name of at most 63 letters, digits, - _ . because it is a label value on the stack's objects"
        raise BadInput(source, [Problem("stack", f"the name {stack!r}", allowed, "rename the stack")])
    try:
        spec = parse_platform(platform, source)
    except BadInput as error:
        others = _problems_of_parts(platform, error.problems, stack, source, folder or stacks_dir())
        raise BadInput(source, dict.fromkeys([*error.problems, *others])) from None
    try:
        if isinstance(spec, Environment):
            return _plan_environment(spec, platform, stack)
        return _plan_team(spec, stack, source, folder or stacks_dir())
    except BadInput as error:
        if Path(error.source).is_file():  # the problem is in the file of the team's environment
            raise
        raise BadInput(source, error.problems) from None


def _plan_environment(spec: Environment, platform: object, stack: str) -> EnvironmentPlan:
    try:
        return plan_environment(spec, stack, load_catalog())
    except BadInput as error:
        problems = _problems_of_plan(cast("Mapping[str, Any]", platform))
        raise BadInput(stack, dict.fromkeys([*error.problems, *problems])) from None


def _problems_of_parts(
    platform: object, known: tuple[Problem, ...], stack: str, source: str, folder: Path
) -> list[Problem]:
    """Return the planning problems of the valid fields of a stack file, so that one run reports both invalid
    values and planning problems.
    """
    completed = with_placeholders(platform, known)
    if completed is None:
        return []
    spec = completed.stack
    planned: Sequence[Problem] = ()
    if isinstance(spec, Environment):
        cluster = None if completed.is_placeholder("cluster") else spec.cluster
        operator = None if completed.is_placeholder("operator") else spec.operator
        if cluster is None or not completed.pools_are_real:
            planned = check_apart(spec, cluster, operator, load_catalog())
        else:
            planned = _problems_of_plan(completed.document)
    elif not completed.is_placeholder("environment"):
        planned = _problems_of_team(spec, stack, source, folder)
    found = [*completed.found, *(one for one in planned if not completed.is_placeholder(one.path))]
    return [completed.in_file(problem) for problem in found]


def _problems_of_team(spec: TeamStack, stack: str, source: str, folder: Path) -> Sequence[Problem]:
    """Return the planning problems of a team's stack. The result is empty if its environment is not valid."""
    try:
        _plan_team(spec, stack, source, folder)
    except BadInput as error:
        return () if Path(error.source).is_file() and error.source != source else error.problems
    return ()


def _problems_of_plan(document: Mapping[str, Any]) -> list[Problem]:
    """Return the planning problems of a platform object. If every problem has a suggested value, also return the
    problems that remain after these values are inserted.
    """
    found: list[Problem] = []
    while True:
        spec = parse_platform(document, "")
        assert isinstance(spec, Environment)  # noqa: S101 - only environments are completed
        try:
            plan_environment(spec, "", load_catalog())
        except BadInput as error:
            new = [problem for problem in error.problems if problem.path not in {one.path for one in found}]
            found += new
            corrected = with_suggestions(document, new)
            if not new or corrected is None or _is_invalid(corrected):
                return found
            document = corrected
        else:
            return found


def _is_invalid(document: Mapping[str, Any]) -> bool:
    try:
        return not isinstance(parse_platform(document, ""), Environment)
    except BadInput:
        return True


def _plan_team(spec: TeamStack, stack: str, source: str, folder: Path) -> Plan:
    reference = spec.environment
    name = reference.stack.rsplit("/", 1)[-1]
    path = folder / (reference.file or f"Pulumi.{name}.yaml")
    if not path.is_file():
        there = [stack_name(one) for one in folder.glob("Pulumi.*.yaml")]
        meant = "" if reference.file else did_you_mean(name, [one for one in there if one != stack])
        problem = Problem(
            "environment.file" if reference.file else "environment.stack",
            repr(reference.file or reference.stack),
            "an environment whose stack file exists, because the plan of a team needs the pools of its "
            "environment",
            meant or f"{path} does not exist; set environment.file to the environment's stack file",
        )
        raise BadInput(source, [problem])
    file = read_stack_file(path)
    environment = parse_platform(file.platform, str(path))
    if not isinstance(environment, Environment):
        problem = Problem(
            "environment.stack",
            repr(reference.stack),
            "a stack of kind environment",
            "write the name of the environment's stack",
        )
        raise BadInput(source, [problem])
    plan = plan_platform(file.platform, name, source=str(path), folder=folder)
    assert isinstance(plan, EnvironmentPlan)  # noqa: S101 - its spec is an Environment
    return plan_team(spec, environment, plan, stack, load_catalog())


def environment_of(loaded: LoadedStack, because: str, command: str) -> EnvironmentPlan:
    """Return the plan for an environment. Raises BadInput if the stack is a team's stack.

    `because` is the reason, which follows "a stack of kind environment" in the error. `command` is the command
    to run on the environment, with `{}` as the placeholder for the name of the environment's stack.
    """
    if loaded.plan.kind == "environment":
        return loaded.plan
    fix = f"run `gpu-platform {command.format(loaded.environment_argument)}`"
    raise BadInput(loaded.argument, [Problem("kind", "'team'", f"a stack of kind environment{because}", fix)])
