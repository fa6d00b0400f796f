"""Manifest of a notebook: a suspended CronJob. Members create Jobs from it. Each Job finishes when its notebook
has been idle for some time.

A notebook is a Job and not a Deployment, so that its GPU is released when the server exits. `kubectl create job
NAME --from=cronjob/ENTRY` starts a notebook.

Source: Jupyter Server docs, shutdown_no_activity_timeout; jupyter_server_terminals 0.5.4, terminalmanager.py;
Kubernetes docs, CronJob; read 2026-11-29.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gpu_platform.base import names
from gpu_platform.planning.workloads.section import NotebookPlan
from gpu_platform.workload_manifests.batch import cron_job
from gpu_platform.workload_manifests.pods import Manifest, TeamPods

PORT: Final = 8888
IDLE: Final = {names.IDLE_LABEL: "true"}  # label of the pods
_NEVER: Final = "0 0 1 1 *"  # required, but without effect, because the CronJob is suspended


def jupyter(directory: str, idle_seconds: int) -> tuple[str, ...]:
    """Return the command that starts JupyterLab with its files in `directory`. JupyterLab exits after
    `idle_seconds` without use.
    """
    return (
        "jupyter",
        "lab",
        "--ip=127.0.0.1",  # only `kubectl port-forward` reaches JupyterLab
        f"--port={PORT}",
        "--no-browser",
        f"--ServerApp.root_dir={directory}",
        f"--ServerApp.shutdown_no_activity_timeout={idle_seconds}",
        f"--MappingKernelManager.cull_idle_timeout={idle_seconds}",
        "--MappingKernelManager.cull_connected=True",  # an idle notebook stops even if it is open in a browser
        f"--TerminalManager.cull_inactive_timeout={idle_seconds}",  # an open terminal keeps the server running
    )


def notebook(team: TeamPods, entry: NotebookPlan) -> list[Manifest]:
    """Return the claim for a notebook's files, if it has one, and the CronJob."""
    workload = entry.pod.workload
    if not workload.command:
        workload = replace(workload, command=jupyter(entry.home, entry.idle_seconds))
    pod = replace(entry.pod, workload=workload, env={"HOME": entry.home, **entry.pod.env})
    job: Manifest = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": entry.deadline_seconds,
        "template": team.template(pod, {}, labels=IDLE, restartPolicy="Never"),
    }
    return [*team.claim(entry.claim), cron_job(team, pod, _NEVER, job, suspended=True)]
