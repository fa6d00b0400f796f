"""The lines of the Pulumi CLI's output that are displayed while the CLI runs."""

from __future__ import annotations

from gpu_platform.deploy.pulumi.pulumi_output import OnlyChanges, WithoutInterruptions

STACK = "    pulumi:pulumi:Stack gpu-platform-shop running "
FAILED = " +  kubernetes:apps/v1:DaemonSet validate-lab **creating failed** error: conflict"
FRAMES = [
    STACK + "Traceback (most recent call last):",
    STACK + '  File "/opt/bin/pulumi-language-python-exec", line 232, in <module>',
    STACK + "    loop.run_until_complete(coro)",
]


def shown(*lines: str) -> list[str]:
    found: list[str] = []
    output = WithoutInterruptions(found.append)
    for line in lines:
        output(line)
    return found


def test_the_traceback_of_a_program_that_the_cli_stopped_is_not_shown() -> None:
    chained = STACK + "During handling of the above exception, another exception occurred:"
    lines = [*FRAMES, STACK + "KeyboardInterrupt", STACK + "error: update failed"]
    assert shown(*lines) == [STACK + "error: update failed"]
    both = [*FRAMES, STACK + "KeyboardInterrupt", chained, *FRAMES, STACK + "KeyboardInterrupt: ", FAILED]
    assert shown(*both) == [FAILED]


def test_what_other_resources_say_in_the_middle_of_it_is_shown() -> None:
    assert shown(FRAMES[0], FAILED, *FRAMES[1:], STACK + "KeyboardInterrupt") == [FAILED]


def test_a_defect_of_the_program_is_shown_with_its_traceback() -> None:
    lines = [FAILED, *FRAMES, STACK + "ValueError: no such machine type", "Diagnostics:"]
    assert shown(*lines) == lines


def test_the_summary_below_diagnostics_is_shown_without_it_too() -> None:
    frames = ["    Traceback (most recent call last):", '      File "x.py", line 1, in <module>']
    assert shown("Diagnostics:", *frames, "    KeyboardInterrupt", "    error: update failed") == [
        "Diagnostics:",
        "    error: update failed",
    ]


def changes(*lines: str) -> list[str]:
    found: list[str] = []
    output = OnlyChanges(found.append)
    for line in lines:
        output(line)
    return found


def test_resources_that_are_read_or_unchanged_have_no_line() -> None:
    update = " ~  kubernetes:core/v1:ResourceQuota vision/quota update [diff: ~spec]"
    lines = [
        " ~  kubernetes:core/v1:Namespace vision refreshing",
        " ~  kubernetes:core/v1:Namespace vision refreshing (0s)",
        " ~  kubernetes:core/v1:Namespace vision refresh",
        " ~  kubernetes:apps/v1:DaemonSet agent refreshing (0s) All replicas scheduled as expected. Replicas: 2",
        "    kubernetes:core/v1:Namespace vision",
        "    pulumi:providers:kubernetes shop ",
        update,
    ]
    assert changes(*lines) == [update]


def test_what_others_changed_and_what_fails_is_shown() -> None:
    lines = [
        " ~  kubernetes:core/v1:ResourceQuota vision/quota refresh [diff: ~spec]",
        " -  kubernetes:core/v1:ConfigMap guide refresh",
        " ~  kubernetes:core/v1:Namespace vision refreshing error: no answer",
        " +  kubernetes:apps/v1:Deployment chat **creating failed** error: denied",
        "    pulumi:pulumi:Stack gpu-platform-shop  1 error",
        "Diagnostics:",
        "    error: update failed",
    ]
    assert changes(*lines) == lines


def test_a_step_of_a_resource_is_shown_once_and_its_end_too() -> None:
    creating = " +  kubernetes:apps/v1:Deployment chat creating (0s)"
    waiting = " +  kubernetes:apps/v1:Deployment chat creating (0s) [1/2] Waiting for app"
    created = " +  kubernetes:apps/v1:Deployment chat created (4s)"
    replaced = " +- kubernetes:core/v1:ConfigMap guide replaced (0.00s) [diff: ~data]"
    lines = [creating, creating, waiting, creating, replaced, replaced + ";", created]
    assert changes(*lines) == [creating, waiting, replaced, created]


def test_dots_of_progress_come_once_between_two_changes() -> None:
    dots, unchanged = "@ updating....", "    kubernetes:core/v1:Namespace vision"
    created = " +  kubernetes:core/v1:Namespace search created (1s)"
    assert changes(dots, unchanged, dots, created, dots, "", dots) == [dots, created, dots, ""]
