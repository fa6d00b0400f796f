"""The kinds of cloud credentials that are found in environment variables and shared files, without a network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_platform.online.aws.credentials import aws_sources
from gpu_platform.online.azure.credentials import azure_sources
from gpu_platform.online.google.credentials import google_sources

SECRET = "never-to-be-told"


def aws_home(tmp_path: Path, *, credentials: str = "", config: str = "") -> dict[str, str]:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text(credentials)
    (tmp_path / ".aws/config").write_text(config)
    return {"HOME": str(tmp_path)}


def test_a_machine_without_any_has_none(tmp_path: Path) -> None:
    assert aws_sources({"HOME": str(tmp_path)}) == []
    assert google_sources({"HOME": str(tmp_path)}) == []
    assert azure_sources({"HOME": str(tmp_path)}) == []


def test_no_source_contains_a_value(tmp_path: Path) -> None:
    home = aws_home(
        tmp_path, credentials=f"[default]\naws_access_key_id = {SECRET}\naws_secret_access_key = {SECRET}\n"
    )
    environment = {
        **home,
        "AWS_ACCESS_KEY_ID": SECRET,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "GOOGLE_CREDENTIALS": SECRET,
        "GOOGLE_OAUTH_ACCESS_TOKEN": SECRET,
        "ARM_CLIENT_ID": SECRET,
        "ARM_TENANT_ID": SECRET,
        "ARM_CLIENT_SECRET": SECRET,
    }
    found = [*aws_sources(environment), *google_sources(environment), *azure_sources(environment)]

    assert len(found) == 5
    assert SECRET not in " ".join(found)


def test_aws_takes_the_environment_before_files(tmp_path: Path) -> None:
    home = aws_home(tmp_path, credentials="[default]\naws_access_key_id = a\n")
    found = aws_sources({**home, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})

    assert [source.split(" in ")[0] for source in found] == ["access key", "access key"]
    assert "AWS_ACCESS_KEY_ID" in found[0]
    assert str(tmp_path / ".aws/credentials") in found[1]


def test_half_a_key_is_no_key(tmp_path: Path) -> None:
    assert aws_sources({"HOME": str(tmp_path), "AWS_ACCESS_KEY_ID": "a"}) == []


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ("sso_session = work", "IAM Identity Center"),
        ("role_arn = arn:aws:iam::1:role/a\nsource_profile = b", "assumed role"),
        ("credential_process = tool", "external process"),
    ],
)
def test_aws_profiles_are_reported_by_their_kind(tmp_path: Path, keys: str, kind: str) -> None:
    home = aws_home(tmp_path, config=f"[profile work]\n{keys}\n[default]\nregion = us-east-2\n")

    assert aws_sources(home) == []
    (found,) = aws_sources({**home, "AWS_PROFILE": "work"})
    assert found.startswith(f"{kind} in profile work of ")


def test_aws_web_identities_and_containers_are_found(tmp_path: Path) -> None:
    pod = {"HOME": str(tmp_path), "AWS_WEB_IDENTITY_TOKEN_FILE": "/t", "AWS_ROLE_ARN": "arn"}
    assert aws_sources(pod) == ["web identity (AWS_WEB_IDENTITY_TOKEN_FILE)"]
    task = {"HOME": str(tmp_path), "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1"}
    assert aws_sources(task) == ["container credentials (AWS_CONTAINER_CREDENTIALS_*)"]


def test_files_that_cannot_be_read_are_no_source(tmp_path: Path) -> None:
    home = aws_home(tmp_path, credentials="no section\n", config="[default")
    key = tmp_path / "key.json"
    key.write_text("no json")

    assert aws_sources(home) == []
    assert google_sources({**home, "GOOGLE_APPLICATION_CREDENTIALS": str(key)}) == []


def test_google_default_credentials_are_reported_by_their_kind(tmp_path: Path) -> None:
    folder = tmp_path / ".config/gcloud"
    folder.mkdir(parents=True)
    (folder / "application_default_credentials.json").write_text(
        json.dumps({"type": "authorized_user", "refresh_token": SECRET})
    )
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"type": "service_account", "private_key": SECRET}))

    found = google_sources({"HOME": str(tmp_path), "GOOGLE_APPLICATION_CREDENTIALS": str(key)})
    assert [source.split(" in ")[0] for source in found] == ["service_account", "authorized_user"]
    assert SECRET not in " ".join(found)


def test_google_default_credentials_are_read_from_the_gcloud_folder(tmp_path: Path) -> None:
    (tmp_path / "application_default_credentials.json").write_text(json.dumps({"type": "external_account"}))

    (found,) = google_sources({"HOME": "/nowhere", "CLOUDSDK_CONFIG": str(tmp_path)})
    assert found.startswith("external_account in ")


def test_the_azure_cli_is_a_source_only_after_a_login(tmp_path: Path) -> None:
    environment = {"HOME": "/nowhere", "AZURE_CONFIG_DIR": str(tmp_path)}
    profile = tmp_path / "azureProfile.json"
    profile.write_text(json.dumps({"installationId": "1", "subscriptions": []}), "utf-8-sig")
    assert azure_sources(environment) == []
    profile.write_text(json.dumps({"subscriptions": [{"name": "ml", "user": {"name": SECRET}}]}), "utf-8-sig")
    assert azure_sources(environment) == [f"login of the Azure CLI in {tmp_path}"]


@pytest.mark.parametrize(
    ("variable", "kind"),
    [
        ("ARM_CLIENT_SECRET", "service principal with a secret"),
        ("ARM_CLIENT_CERTIFICATE_PATH", "service principal with a certificate"),
        ("ARM_OIDC_TOKEN_FILE_PATH", "workload identity"),
    ],
)
def test_azure_service_principals_are_reported_by_their_kind(tmp_path: Path, variable: str, kind: str) -> None:
    principal = {"HOME": str(tmp_path), "ARM_CLIENT_ID": "a", "ARM_TENANT_ID": "b"}
    assert azure_sources(principal) == []
    assert azure_sources({"HOME": str(tmp_path), variable: SECRET}) == []
    assert azure_sources({**principal, variable: SECRET}) == [f"{kind} of the Pulumi provider ({variable})"]
