"""Company rules in addition to the policy pack. To enable them, write `policy: {own_rules: [acme_rules]}` in a
stack file.
"""

from collections.abc import Iterator

from policies.api import Breach, Rule, Settings, Severity, Stack, Workload, workloads


class Registries(Settings):
    """Registries from which pods may pull images. Each must end with a slash."""

    registries: tuple[str, ...] = ("registry.acme.example/",)


def _foreign_image(_: Stack, workload: Workload, settings: Registries) -> Iterator[Breach]:
    for container in workload.containers:
        image = container.spec.get("image")
        if not (image.text() or "").startswith(settings.registries):
            yield Breach(
                at=image,
                found=f"image {image.text()!r}",
                allowed="images from " + ", ".join(settings.registries),
                fix="push it to the company's registry, or set images.mirror",
            )


image_registry = Rule(
    id="acme.image-registry",
    severity=Severity.HIGH,  # critical and high stop a deployment; medium and low are warnings
    description="Pods run images from the company's registry, where images are scanned.",
    subjects=lambda stack: stack.view(workloads),
    check=_foreign_image,
    settings=Registries,
)

RULES = (image_registry,)
