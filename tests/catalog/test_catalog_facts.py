"""The catalogue's facts agree with each other and with published numbers."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest
import yaml

from gpu_platform.catalog import Catalog, ContainerImage, load_catalog, models
from gpu_platform.catalog.families import family_of
from gpu_platform.catalog.unknown_machine import unknown_machine_type
from gpu_platform.planning.clouds.vendors import address_pods
from gpu_platform.planning.expectations.topology import expected_matrix


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def test_no_entry_is_written_twice(catalog: Catalog):
    written: Counter[tuple[str, ...]] = Counter()
    keys = {
        "gpus": ("model",),
        "operator_releases": ("version",),
        "node_images": ("vendor", "family"),
        "settable_sysctls": ("platform",),
        "pool_properties": ("platform", "name"),
        "drain_limits": ("platform", "action"),
        "no_control_plane_zones": ("zone_id",),
        "eks_registries": ("region",),
        "kubernetes_versions": ("platform", "version"),
        "driver_branches": ("branch",),
        "ai_conformance": ("version",),
    }
    for file in (resources.files("gpu_platform.catalog") / "facts").iterdir():
        for kind, entries in yaml.load(file.read_text("utf-8"), Loader=yaml.CSafeLoader).items():
            of_kind = keys.get(kind, ("name",))
            written.update((kind, *(entry[key] for key in of_kind)) for entry in entries)
    assert [entry for entry, count in written.items() if count > 1] == []
    assert len(written) == sum(len(getattr(catalog, field.name)) for field in dataclasses.fields(catalog))


def test_every_fact_is_read_by_some_code():
    """If no code reads a fact, nobody notices that the fact is wrong or missing."""
    root = Path(str(resources.files("gpu_platform"))).parent
    code = "".join(
        file.read_text("utf-8")
        for folder in ("gpu_platform", "components", "extensions", "sandbox", "validators", "policies")
        for file in (root / folder).rglob("*.py")
    )
    kinds = [kind for kind in vars(models).values() if isinstance(kind, type) and issubclass(kind, models.Fact)]
    fields = {(kind.__name__, field) for kind in kinds for field in kind.model_fields}
    unread = {field for field in fields if not re.search(rf"\.{field[1]}\b", code)}
    # The loader reads the fields of CatalogFile in a loop, so no code names them.
    of_files = {("CatalogFile", field) for field in models.CatalogFile.model_fields}
    assert unread - of_files == set()


def test_every_fact_is_read_by_code(catalog: Catalog):
    root = Path(str(resources.files("gpu_platform")))
    code = "".join(file.read_text("utf-8") for file in root.rglob("*.py"))
    by_name = (catalog.images, catalog.charts, catalog.eks_addons, catalog.gke_features)
    names = [name for entries in by_name for name in entries]
    assert names
    by_facts = {one.daemon.release for one in catalog.fabric_pods.values() if one.daemon is not None}
    assert [name for name in names if f'"{name}"' not in code and name not in by_facts] == []


def test_the_daemon_of_a_fabric_is_started_as_admission_knows_it(catalog: Catalog):
    for fact in catalog.fabric_pods.values():
        allowed = {*fact.read_only, *fact.writable}
        assert set(fact.mounts.values()) <= allowed
        if (daemon := fact.daemon) is None:
            continue
        repository, _, tag = catalog.images[daemon.release].reference.rpartition(":")
        assert repository == daemon.image
        assert tag
        assert (daemon.script is None) == (daemon.arguments == ())
        for argument in daemon.arguments:
            assert re.fullmatch(daemon.script or "", argument)


def test_every_cloud_machine_type_has_the_facts_of_its_family(catalog: Catalog):
    for machine in catalog.machine_types.values():
        assert machine.vendor == "on-prem" or (machine.vendor, family_of(machine)) in catalog.families


def test_every_cloud_family_counts_against_a_known_quota(catalog: Catalog):
    unknown = {
        (machine.vendor, spot, machine.name)
        for machine in catalog.machine_types.values()
        for spot in (False, True)
        if machine.vendor != "on-prem" and catalog.gpu_quota(machine, spot=spot) is None
    }
    with_gpus = {one for one in unknown if catalog.machine_types[one[2]].has_gpus}
    families = {
        (provider, spot, name.split(".")[0].removesuffix("-nolssd").rpartition("-")[0])
        for provider, spot, name in with_gpus
    }
    without = {(provider, spot, name.partition("-")[0]) for provider, spot, name in unknown - with_gpus}
    # GCP counts Spot VMs against the preemptible quota only if the project has such a quota.
    # Quotas of newer series are per VM family.
    assert {series for _, spot, series in without if not spot} == {"c4", "c4a", "n4"}
    assert {provider for provider, _, _ in without} == {"gcp"}
    assert families == {
        ("aws", True, "p6"),
        ("aws", False, "p6e"),  # P6e is sold only in capacity blocks, whose purchase counts against a quota
        ("aws", True, "p6e"),
        ("gcp", False, "a4x-highgpu"),
        ("gcp", True, "a4x-highgpu"),
        ("gcp", True, "g4-standard"),
    }


def test_every_machine_type_names_a_gpu_of_the_catalogue(catalog: Catalog):
    models = {machine.gpu for machine in catalog.machine_types.values() if machine.has_gpus}
    assert models <= set(catalog.gpus)
    assert None not in models


def test_a_machine_type_without_gpus_has_no_fact_about_gpus(catalog: Catalog):
    cpu = [machine for machine in catalog.machine_types.values() if not machine.has_gpus]
    assert {"m7i.large", "m8g.large", "n2-standard-8", "e2-standard-4"} <= {machine.name for machine in cpu}
    for machine in cpu:
        links = (machine.nvlinks_per_gpu, machine.rdma_interfaces, machine.numa_nodes, machine.accelerator_label)
        assert (machine.gpu_count, *links) == (0, 0, 0, None, None), machine.name


@pytest.mark.parametrize(
    ("machine", "vcpu", "gib", "arch", "pods"),
    [
        ("m7i.large", 2, 8, "amd64", 29),  # from eni-max-pods.txt of awslabs/amazon-eks-ami
        ("m7i.4xlarge", 16, 64, "amd64", 234),
        ("c7g.xlarge", 4, 8, "arm64", 58),
        ("m8g.48xlarge", 192, 768, "arm64", 737),
    ],
)
def test_an_instance_type_without_gpus_has_the_size_that_ec2_documents(
    catalog: Catalog, machine: str, vcpu: int, gib: int, arch: str, pods: int
) -> None:
    found = catalog.machine_types[machine]
    assert (found.vcpu, found.memory_mib, found.arch) == (vcpu, gib * 1024, arch)
    assert address_pods(found) == pods


def test_numa_nodes_are_given_for_every_gpu_of_a_machine_or_for_none(catalog: Catalog):
    for machine in catalog.machine_types.values():
        assert machine.numa_nodes is None or len(machine.numa_nodes) == machine.gpu_count, machine.name


def test_nvlinks_join_at_least_two_gpus(catalog: Catalog):
    for machine in catalog.machine_types.values():
        assert machine.nvlinks_per_gpu == 0 or machine.gpu_count > 1, machine.name


@pytest.mark.parametrize(
    ("machine", "links"),
    [
        ("p3dn.24xlarge", 6),
        ("p4d.24xlarge", 12),
        ("p5.48xlarge", 18),
        ("p5.4xlarge", 0),
        ("a2-highgpu-8g", 12),
        ("a2-highgpu-1g", 0),
        ("a3-highgpu-8g", 18),
        ("a4x-highgpu-4g", 18),
        ("g5.48xlarge", 0),
        ("dgx-b200", 18),
    ],
)
def test_nvlinks_per_gpu_follow_the_baseboard(catalog: Catalog, machine: str, links: int):
    assert catalog.machine_types[machine].nvlinks_per_gpu == links


def test_memory_of_machine_types_is_in_mib(catalog: Catalog):
    memory = {name: machine.memory_mib for name, machine in catalog.machine_types.items()}
    assert memory["g4dn.xlarge"] == 16 * 1024
    assert memory["a2-highgpu-1g"] == 85 * 1024
    for name, mib in memory.items():
        assert mib % 1024 == 0, name
        assert (8 if catalog.machine_types[name].has_gpus else 2) <= mib / 1024 <= 4096, name


@pytest.mark.parametrize(
    ("model", "mib"),
    [
        ("t4", 15360),
        ("a10g", 23028),
        ("l4", 23034),
        ("a100-40gb", 40960),
        ("a100-80gb", 81920),
        ("h100-80gb", 81559),
        ("h200-141gb", 143771),
        ("b200", 183359),
    ],
)
def test_gpu_memory_is_what_nvml_reports(catalog: Catalog, model: str, mib: int):
    assert catalog.gpus[model].memory_mib == mib


def test_row_remapping_begins_with_ampere(catalog: Catalog):
    for gpu in catalog.gpus.values():
        assert gpu.row_remapping == (gpu.architecture not in {"volta", "turing"}), gpu.model


def test_fractions_of_a_gpu_are_not_machine_types_of_ours(catalog: Catalog):
    fractions = {"g6f.large", "g6f.4xlarge", "gr6f.4xlarge", "g4-standard-6", "g4-standard-24"}
    assert not fractions & set(catalog.machine_types)


def test_only_gke_machine_types_have_an_accelerator_label(catalog: Catalog):
    for machine in catalog.machine_types.values():
        if machine.vendor == "gcp" and machine.has_gpus:
            assert machine.accelerator_label is not None
            assert catalog.find_gpu(machine.accelerator_label) == catalog.gpu_of(machine), machine.name
        else:
            assert machine.accelerator_label is None


def test_sizes_of_azure_have_infiniband_if_their_names_have_an_r(catalog: Catalog):
    for machine in catalog.machine_types.values():
        if machine.vendor == "azure":
            features = re.sub(r"^[A-Z]+", "", family_of(machine)).partition("_")[0]
            assert ("r" in features) == (machine.rdma_interfaces > 0), machine.name


def test_ephemeral_os_disks_of_azure_need_a_local_disk_of_the_size(catalog: Catalog):
    for machine in catalog.machine_types.values():
        if machine.ephemeral_os_gib is not None:
            assert machine.vendor == "azure"
            assert 64 <= machine.ephemeral_os_gib <= 2048
            features = family_of(machine).partition("_")[0]
            assert machine.has_gpus or "d" in features, machine.name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Standard_NV6ads_A10_v5", "vGPU guest driver"),
        ("Standard_NV36adms_A10_v5", "vGPU guest driver"),
        ("Standard_NC16lds_xl_RTXPRO6000BSE_v6", "vGPU guest driver"),
        ("Standard_ND96isr_MI300X_v5", "from AMD"),
        ("Standard_NC24rs_v3", "retired it on 2025-09-30"),
        ("Standard_ND96is_flex_H100_v5", "no public page"),
        ("Standard_NCC40ads_H100_v5", "confidential computing"),
    ],
)
def test_unsupported_sizes_of_azure_are_refused_with_the_reason(catalog: Catalog, name: str, reason: str):
    found, _, fix = unknown_machine_type(name, catalog, "azure")
    assert reason in found
    assert all(size in catalog.machine_types for size in re.findall(r"Standard_\w+", fix))


def test_only_two_cards_with_a_bridge_are_all_connected_by_nvlink(catalog: Catalog):
    pairs = {name for name, machine in catalog.machine_types.items() if machine.nvlink_pairs}
    assert pairs == {"Standard_NC48ads_A100_v4", "Standard_NC96ads_A100_v4", "Standard_NC80adis_H100_v5"}
    linked = {name for name in pairs if catalog.machine_types[name].all_linked}
    assert linked == pairs - {"Standard_NC96ads_A100_v4"}
    matrix = expected_matrix(catalog.machine_types["Standard_NC96ads_A100_v4"], catalog)
    assert matrix[0] == ["X", "?", "?", "?"]


def test_only_gpus_on_arm_hosts_are_in_arm_machine_types(catalog: Catalog):
    on_arm = {machine.gpu for machine in catalog.machine_types.values() if machine.arch == "arm64"}
    assert on_arm == {"t4g", "gb200", "gb300", None}


def test_exactly_the_newest_major_release_of_the_operator_is_supported(catalog: Catalog):
    status = {version: release.status for version, release in catalog.operator_releases.items()}
    assert status == {
        "v26.7.0": "supported",
        "v26.3.3": "deprecated",
        "v26.3.2": "deprecated",
        "v26.3.1": "deprecated",
        "v26.3.0": "deprecated",
        "v25.10.1": "end-of-support",
        "v25.10.0": "end-of-support",
    }


def test_an_operator_release_supports_its_own_default_driver(catalog: Catalog):
    for release in catalog.operator_releases.values():
        assert release.default_driver in release.drivers, release.version
        assert all(driver.count(".") == 2 for driver in release.drivers), release.version


def test_kubernetes_versions_of_a_release_are_a_range(catalog: Catalog):
    for release in catalog.operator_releases.values():
        lowest, highest = (tuple(map(int, version.split("."))) for version in release.kubernetes)
        assert (1, 30) <= lowest <= highest <= (1, 36), release.version


def test_the_dra_driver_has_one_version_with_and_without_a_device_plugin(catalog: Catalog):
    newest = max(catalog.operator_releases.values(), key=lambda release: release.date)
    assert catalog.charts["dra-driver-nvidia-gpu"].version == newest.dra_driver


def test_every_gpu_has_a_driver_in_the_supported_release(catalog: Catalog):
    branches = {int(driver.split(".")[0]) for driver in catalog.operator_releases["v26.7.0"].drivers}
    for gpu in catalog.gpus.values():
        newest = gpu.maximum_driver_branch or max(branches)
        assert any(gpu.minimum_driver_branch <= branch <= newest for branch in branches), gpu.model


def test_volta_ends_before_the_default_driver_of_the_supported_release(catalog: Catalog):
    default = int(catalog.operator_releases["v26.7.0"].default_driver.split(".")[0])
    ended = {gpu.model for gpu in catalog.gpus.values() if (gpu.maximum_driver_branch or default) < default}
    assert ended == {"v100-16gb", "v100-32gb"}


def test_the_node_agent_has_a_stock_python_image_pinned_by_digest(catalog: Catalog):
    reference = catalog.images["node-agent-python"].reference
    assert reference.startswith("python:3.")
    assert "-slim@sha256:" in reference


@pytest.mark.parametrize(
    ("reference", "undigested", "allowed"),
    [
        ("example.com/a@sha256:" + "0" * 64, None, True),
        ("example.com/a:v1@sha256:" + "0" * 64, "why", False),
        ("example.com/a:v1", None, False),
        ("example.com/a:v1", "why", True),
        ("example.com/a:latest", "why", False),
        ("example.com/a", "why", False),
    ],
)
def test_an_image_has_a_digest_or_a_release_and_a_reason(reference: str, undigested: str | None, allowed: bool):
    entry = {
        "name": "a",
        "reference": reference,
        "undigested": undigested,
        "source": {"title": "t", "date": "2026-11-21"},
    }
    if allowed:
        assert ContainerImage.model_validate(entry).reference == reference
    else:
        with pytest.raises(ValueError, match=reference.partition("@")[0]):
            ContainerImage.model_validate(entry)


def test_every_fact_has_a_source_and_a_date(catalog: Catalog):
    facts = (*catalog.gpus.values(), *catalog.machine_types.values(), *catalog.operator_releases.values())
    migs = (gpu.mig for gpu in catalog.gpus.values() if gpu.mig is not None)
    pools = (*catalog.pool_properties.values(), *catalog.gpu_quotas.values(), *catalog.drain_limits.values())
    for fact in (*facts, *migs, *pools, *catalog.images.values()):
        assert fact.source.title
        assert fact.source.date.year >= 2026


def test_machines_with_and_without_local_disks_are_otherwise_equal(catalog: Catalog):
    without = [one for one in catalog.machine_types.values() if one.name.endswith("-nolssd")]
    assert {one.name.partition("-")[0] for one in without} == {"a2", "a3", "a4", "a4x"}
    for one in without:
        base = catalog.machine_types[one.name.removesuffix("-nolssd")]
        differing = {field for field in type(one).model_fields if getattr(one, field) != getattr(base, field)}
        assert differing - {"local_disk_gb"} == {"name", "local_nvme_gb", "source"}, one.name
        assert (one.local_nvme_gb, base.local_nvme_gb > 0) == (0, True)
        assert catalog.gcp_family(one) == catalog.gcp_family(base)


def test_no_machine_type_is_supported_and_refused_at_once(catalog: Catalog):
    assert [name for name in catalog.machine_types if catalog.unsupported(name)] == []
    assert catalog.unsupported("a4x-maxgpu-4g-metal-nolssd") is catalog.unsupported("a4x-maxgpu-4g-metal")
    assert catalog.unsupported("mainframe") is None


@pytest.mark.parametrize(
    "name", ["trn1.32xlarge", "t3.large", "inf2.48xlarge", "hpc7g.16xlarge", "ct5lp-hightpu-4t"]
)
def test_no_machine_type_of_another_series_is_suggested(catalog: Catalog, name: str):
    found, _, fix = unknown_machine_type(name, catalog)
    assert "did you mean" not in fix
    assert ("accelerators are" in found) == name.startswith(("trn", "inf", "ct"))


@pytest.mark.parametrize(
    ("name", "similar"),
    [("P5.48xlarge", "p5.48xlarge"), ("p4d24xlarge", "p4d.24xlarge"), ("m5.xlarge", "m7i.xlarge")],
)
def test_a_similar_machine_type_has_the_series_and_architecture(catalog: Catalog, name: str, similar: str):
    assert unknown_machine_type(name, catalog)[2] == f"did you mean '{similar}'?"


@pytest.mark.parametrize(
    ("name", "vendor", "fix"),
    [
        ("p5", "aws", "write p5.4xlarge or p5.48xlarge"),
        ("H100", "aws", "write p5.4xlarge or p5.48xlarge"),
        ("8xH100", "aws", "write p5.4xlarge or p5.48xlarge"),
        ("dgx-a100", "aws", "write p4d.24xlarge or p4de.24xlarge"),
        ("dgx-a100", None, "write dgx-a100-320gb or dgx-a100-640gb"),
        (
            "A100",
            "gcp",
            "write a2-highgpu-1g, a2-highgpu-2g, a2-highgpu-4g, a2-highgpu-8g, or another of the 13 types",
        ),
        ("nvidia-h200", "aws", "write p5e.48xlarge or p5en.48xlarge"),
        ("T4", "gcp", "see `gpu-platform machines list`"),
    ],
)
def test_a_family_or_gpu_model_names_the_clouds_machine_types(
    catalog: Catalog, name: str, vendor: str | None, fix: str
):
    assert unknown_machine_type(name, catalog, vendor)[2].startswith(fix)
