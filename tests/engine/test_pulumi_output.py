"""Lines of the Pulumi CLI, as they are shown while it works."""

from __future__ import annotations

from gpu_platform.engine.pulumi_output import WithoutInterruptions

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
