"""AWS credentials from SSO, programs and roles. A small server replaces AWS's services."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server
from servers import request, running_or_skipped

ROLE = "arn:aws:iam::123456789012:role/reader"


def when(seconds: float) -> str:
    """Returns a time from now in AWS's notation."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Aws:
    """The services that issue credentials. Records what they were asked."""

    url: str = ""
    # Lifetime of credentials in seconds.
    lasts: float = 3600
    # Tokens that the portal accepts.
    tokens: set[str] = field(default_factory=lambda: {"CANARY-TOKEN"})
    # Responses of services by name, instead of the usual ones: status, body, number of times.
    refusals: dict[str, tuple[int, bytes, int]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)

    def count(self, service: str) -> int:
        return sum(name == service for name, _, _ in self.asked)

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        url = urlsplit(target)
        if url.path == "/federation/credentials":
            service, given = "portal", dict(parse_qsl(url.query))
        elif url.path == "/token":
            service, given = "exchange", json.loads(body)
        else:
            given = {name: values[0] for name, values in parse_qs(body.decode()).items()}
            service = given["Action"]
        self.asked.append((service, given, headers))
        number = len(self.asked)
        if service in self.refusals:
            status, text, times = self.refusals[service]
            self.refusals[service] = (status, text, times - 1)
            if times > 0:
                return status, text
        if service == "portal":
            if headers.get("x-amz-sso_bearer_token") not in self.tokens:
                return 401, b'{"message": "Session token not found or invalid"}'
            keys = {"accessKeyId": f"SSO{number}", "secretAccessKey": "CANARY", "sessionToken": f"T{number}"}
            keys |= {"expiration": int((time.time() + self.lasts) * 1000)}  # type: ignore[dict-item]
            return 200, json.dumps({"roleCredentials": keys}).encode()
        if service == "exchange":
            self.tokens = {"CANARY-NEW"}
            new = {"accessToken": "CANARY-NEW", "expiresIn": 3600, "refreshToken": "CANARY-REFRESH-2"}
            return 200, json.dumps({**new, "tokenType": "Bearer"}).encode()
        return (
            200,
            f"""<{service}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{service}Result>
            <Credentials><AccessKeyId>STS{number}</AccessKeyId><SecretAccessKey>CANARY</SecretAccessKey>
            <SessionToken>{"T" * 900}{number}</SessionToken><Expiration>{when(self.lasts)}</Expiration>
            </Credentials></{service}Result></{service}Response>""".encode(),
        )


@pytest.fixture
def aws() -> Iterator[Aws]:
    """Runs the services."""
    aws = Aws()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, text = aws.answer(self.command, self.path, headers, body)
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    aws.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield aws
    server.shutdown()
    server.server_close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aws: Aws) -> Path:
    """Returns an empty home directory. The environment tells only where AWS's services are."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    (tmp_path / ".aws" / "sso" / "cache").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    for service in ("STS", "SSO", "SSO_OIDC"):
        monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", aws.url)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        hs.create_array(
            "s3://bucket/a.zarr",
            data=np.arange(40),
            chunks=(4,),
            storage_options=server.s3_options,
        )
        server.reset()
        yield server


def options(server: Server, **others: Any) -> dict[str, Any]:
    return {"endpoint_url": server.url, "region": "eu-central-1", "allow_http": True, **others}


def keys(server: Server) -> set[tuple[str, str | None]]:
    """Returns the keys and session tokens that signed the requests in the log."""
    found = set()
    for each in server.log():
        key = re.match(r"AWS4-HMAC-SHA256 Credential=(\w+)/", each["authorization"] or "")
        found.add((key[1] if key else "", each["token"]))
    return found


def config(home: Path, text: str) -> None:
    (home / ".aws" / "config").write_text(text)


def token(home: Path, session: str, **what: str) -> Path:
    """Stores the token of a login."""
    path = home / ".aws" / "sso" / "cache" / f"{hashlib.sha1(session.encode()).hexdigest()}.json"
    path.write_text(json.dumps({"accessToken": "CANARY-TOKEN", "expiresAt": when(3600), **what}))
    return path


SSO = """
[profile x]
sso_session = my sso
sso_account_id = 123456789012
sso_role_name = reader
[profile old]
sso_start_url = https://x.awsapps.com/start
sso_region = eu-west-1
sso_account_id = 123456789012
sso_role_name = reader
[sso-session "my sso"]
sso_start_url = https://x.awsapps.com/start
sso_region = eu-west-1
"""


@pytest.mark.parametrize(("profile", "session"), [("x", "my sso"), ("old", "https://x.awsapps.com/start")])
def test_sso(home: Path, aws: Aws, server: Server, profile: str, session: str) -> None:
    config(home, SSO)
    path = token(home, session)
    before = path.read_bytes()
    array = hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options(server, profile=profile))
    assert np.array_equal(array[:], np.arange(40))
    # Credentials are requested once. All requests use them, also concurrent ones and another
    # store's.
    hs.open_array("s3://bucket/a.zarr/", mode="r", storage_options=options(server, profile=profile))[:]
    assert aws.count("portal") == len(aws.asked) == 1 and keys(server) == {("SSO1", "T1")}
    _, given, headers = aws.asked[0]
    assert given == {"role_name": "reader", "account_id": "123456789012"}
    assert headers["x-amz-sso_bearer_token"] == "CANARY-TOKEN" and path.read_bytes() == before


def test_a_login_that_is_over_says_what_to_do(home: Path, aws: Aws, server: Server) -> None:
    config(home, SSO)

    def refused(match: str, profile: str = "x") -> None:
        with pytest.raises(PermissionError, match=match) as raised:
            hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options(server, profile=profile))
        assert f"aws sso login --profile {profile}" in str(raised.value)
        assert "CANARY" not in str(raised.value)

    refused("token of profile 'x' is not there")
    token(home, "my sso", expiresAt="CANARY")
    refused("token of profile 'x' is damaged")
    token(home, "my sso", accessToken="CANARY\n")
    refused("token of profile 'x' is damaged")
    token(home, "my sso", expiresAt=when(-1))
    refused("token of profile 'x' has expired")
    token(home, "https://x.awsapps.com/start", expiresAt=when(-1), refreshToken="CANARY")
    refused("token of profile 'old' has expired", "old")
    assert not aws.asked
    token(home, "my sso", accessToken="CANARY-OTHER")
    refused("token of profile 'x' was refused")
    # Concurrent requests share the refusal.
    assert 1 <= aws.count("portal") <= 2
    aws.refusals["portal"] = (403, b'{"message": "No access"}', 9)
    token(home, "my sso")
    with pytest.raises(PermissionError, match=r"none of role 'reader' in account 123456789012: No access"):
        hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options(server, profile="x"))
    assert not server.log()


def test_a_token_that_expires_is_exchanged(home: Path, aws: Aws, server: Server) -> None:
    config(home, SSO)
    client = {"clientId": "id", "clientSecret": "CANARY-CLIENT", "refreshToken": "CANARY-REFRESH"}
    path = token(home, "my sso", expiresAt=when(-100), region="eu-west-1", **client)
    array = hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options(server, profile="x"))
    assert array[3] == 3 and [name for name, _, _ in aws.asked] == ["exchange", "portal"]
    expected = {"clientId": "id", "clientSecret": "CANARY-CLIENT"}
    expected |= {"refreshToken": "CANARY-REFRESH", "grantType": "refresh_token"}
    assert aws.asked[0][1] == expected
    kept = json.loads(path.read_text())
    assert kept["accessToken"] == "CANARY-NEW" and kept["refreshToken"] == "CANARY-REFRESH-2"
    assert kept["clientSecret"] == "CANARY-CLIENT" and kept["region"] == "eu-west-1"
    assert when(3000) < kept["expiresAt"] < when(3700)
    assert path.stat().st_mode & 0o777 == 0o600 and len(list(path.parent.iterdir())) == 1

    # The client's registration has expired, too.
    token(home, "my sso", expiresAt=when(-100), registrationExpiresAt=when(-1), **client)
    config(home, SSO.replace("reader", "writer"))
    with pytest.raises(PermissionError, match="has expired"):
        hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options(server, profile="x"))


def test_credentials_are_renewed_before_they_end(home: Path, aws: Aws, server: Server) -> None:
    config(home, SSO.replace("reader", "renewer"))
    token(home, "my sso")
    aws.lasts = 4
    array = hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options(server, profile="x"))
    assert array[0] == 0 and aws.count("portal") == 1
    # Three quarters of the lifetime are over. The service refuses to renew the credentials, but
    # they are still valid.
    time.sleep(3.1)
    aws.refusals["portal"], aws.lasts = (403, b"{}", 1), 3600
    assert array[1] == 1 and aws.count("portal") == 2
    time.sleep(1)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: int(array[n]), range(40))) == list(range(40))
    assert aws.count("portal") == 3
    assert {key for key, _ in keys(server)} == {"SSO1", "SSO3"}


def test_a_forked_child_has_the_credentials(home: Path, aws: Aws, server: Server) -> None:
    config(home, SSO.replace("reader", "forker"))
    token(home, "my sso")
    array = hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options(server, profile="x"))
    assert array[7] == 7
    pid = os.fork()
    if pid == 0:
        right = False
        try:
            right = bool(np.array_equal(array[:], np.arange(40)))
        finally:
            os._exit(0 if right else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert array[8] == 8 and aws.count("portal") == 1


def program(home: Path, **what: Any) -> str:
    """Returns a profile's command for a program that prints credentials and counts its runs."""
    path = home / "a program.py"
    printed = {"Version": 1, "AccessKeyId": "PROGRAM", "SecretAccessKey": "CANARY", **what}
    path.write_text(
        f"import sys\nopen({str(home / 'runs')!r}, 'a').write(sys.argv[1])\nprint({json.dumps(printed)!r})\n"
    )
    return f"{sys.executable} \"{path}\" '$HOME;'"


def test_programs(home: Path, aws: Aws, server: Server) -> None:
    line = program(home, SessionToken="T", Expiration=when(3600))
    config(home, f"[default]\ncredential_process = {line}\n[profile bad]\ncredential_process = false\n")
    with ThreadPoolExecutor(8) as pool:
        opened = pool.map(
            lambda _: hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options(server))[:],
            range(8),
        )
        assert all(np.array_equal(each, np.arange(40)) for each in opened)
    assert keys(server) == {("PROGRAM", "T")} and (home / "runs").read_text() == "$HOME;"
    with pytest.raises(
        PermissionError, match=r"credential_process of profile 'bad' ended with exit status: 1"
    ):
        hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options(server, profile="bad"))
    config(home, "[default]\ncredential_process = 'x\n")
    with pytest.raises(NotImplementedError, match="'default': credential_process: a quote has no partner"):
        hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options(server))


def test_programs_without_an_end_run_once(home: Path, aws: Aws, server: Server) -> None:
    config(home, f"[profile p]\ncredential_process = {program(home)}\n")
    for _ in range(3):
        hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options(server, profile="p"))
    assert keys(server) == {("PROGRAM", None)} and (home / "runs").read_text() == "$HOME;"


def test_roles(home: Path, aws: Aws, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    config(
        home,
        f"[profile r]\nrole_arn = {ROLE}\nsource_profile = keys\nexternal_id = a&b c\n"
        "duration_seconds = 900\nrole_session_name = me\nregion = eu-west-3\n"
        f"[profile second]\nrole_arn = {ROLE}2\nsource_profile = r\n"
        f"[profile own]\nrole_arn = {ROLE}3\nsource_profile = own\naws_access_key_id = OWN\n"
        "aws_secret_access_key = CANARY\n"
        f"[profile env]\nrole_arn = {ROLE}4\ncredential_source = Environment\n"
        f"[profile web]\nrole_arn = {ROLE}5\nweb_identity_token_file = {home / 'token'}\n",
    )
    (home / ".aws" / "credentials").write_text(
        "[keys]\naws_access_key_id = AKEY\naws_secret_access_key = CANARY\n"
    )

    def asked(profile: str) -> list[tuple[str, dict[str, str], str]]:
        aws.asked.clear()
        server.reset()
        array = hs.open_array(
            "s3://bucket/a.zarr", mode="r", storage_options=options(server, profile=profile)
        )
        assert array[5] == 5
        number = len(aws.asked)
        assert keys(server) == {(f"STS{number}", "T" * 900 + str(number))}
        return [(service, given, headers.get("authorization", "")) for service, given, headers in aws.asked]

    [(service, given, signature)] = asked("r")
    expected = {"Action": "AssumeRole", "Version": "2011-06-15", "RoleArn": ROLE, "RoleSessionName": "me"}
    assert given == {**expected, "DurationSeconds": "900", "ExternalId": "a&b c"}
    assert service == "AssumeRole" and re.match(
        r"AWS4-HMAC-SHA256 Credential=AKEY/\d{8}/eu-west-3/sts/aws4_request", signature
    )
    first, second = asked("second")
    assert first[1]["RoleArn"] == ROLE and second[1]["RoleArn"] == f"{ROLE}2"
    assert "Credential=STS1/" in second[2] and "/us-east-1/sts/" in second[2]
    assert "Credential=OWN/" in asked("own")[0][2]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "CANARY")
    assert "Credential=ENV/" in asked("env")[0][2]
    (home / "token").write_text("CANARY-IDENTITY\n")
    [(service, given, signature)] = asked("web")
    assert service == "AssumeRoleWithWebIdentity" and not signature
    assert given["WebIdentityToken"] == "CANARY-IDENTITY" and given["RoleSessionName"] == "hyperslab"


def test_roles_that_nobody_gives(home: Path, aws: Aws, server: Server) -> None:
    config(
        home,
        f"[profile one]\nrole_arn = {ROLE}\nsource_profile = two\n"
        f"[profile two]\nrole_arn = {ROLE}\nsource_profile = one\n"
        f"[profile none]\nrole_arn = {ROLE}\nsource_profile = empty\n[profile empty]\nregion = x\n"
        f"[profile gone]\nrole_arn = {ROLE}\nsource_profile = nobody\n"
        f"[profile both]\nrole_arn = {ROLE}\nsource_profile = one\ncredential_source = Environment\n"
        f"[profile odd]\nrole_arn = {ROLE}\ncredential_source = Moon\n"
        f"[profile mfa]\nrole_arn = {ROLE}\nsource_profile = keys\nmfa_serial = 7\n"
        f"[profile env]\nrole_arn = {ROLE}\ncredential_source = Environment\n"
        f"[profile file]\nrole_arn = {ROLE}\nweb_identity_token_file = {home / 'none'}\n"
        f"[profile sso]\nsso_session = lost\nsso_account_id = 1\nsso_role_name = x\n"
        f"[profile denied]\nrole_arn = {ROLE}-denied\nsource_profile = keys\n"
        "[profile keys]\naws_access_key_id = AKEY\naws_secret_access_key = CANARY\n",
    )
    denied = (
        b"<E><Error><Code>AccessDenied</Code><Message>not you</Message></Error><RequestId>r7</RequestId></E>"
    )
    aws.refusals["AssumeRole"] = (403, denied, 9)
    for profile, error, match in [
        ("one", NotImplementedError, "lead to each other"),
        ("none", NotImplementedError, "that profile has no credentials"),
        ("gone", NotImplementedError, "there is no profile 'nobody'"),
        ("both", NotImplementedError, "remove one"),
        ("odd", NotImplementedError, "found 'Moon'"),
        ("mfa", NotImplementedError, "export-credentials --profile mfa"),
        ("env", NotImplementedError, "AWS_ACCESS_KEY_ID"),
        ("sso", NotImplementedError, r"there is no \[sso-session lost\]"),
        ("file", PermissionError, "web identity token of profile 'file' cannot be read"),
        ("denied", PermissionError, "'denied' may not take role '.*': AccessDenied: not you.*403"),
    ]:
        with pytest.raises(error, match=match) as raised:
            hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options(server, profile=profile))
        assert "CANARY" not in str(raised.value) and not server.log()


def test_services_that_fail_are_asked_again(home: Path, aws: Aws, server: Server) -> None:
    config(home, SSO.replace("reader", "failing"))
    token(home, "my sso")
    aws.refusals["portal"] = (503, b"", 2)
    hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options(server, profile="x"))
    assert aws.count("portal") == 3
    config(home, SSO.replace("reader", "broken"))
    aws.refusals["portal"] = (200, b'{"roleCredentials": {"accessKeyId": "CANARY"}}', 9)
    with pytest.raises(PermissionError, match="without 'secretAccessKey'") as raised:
        hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options(server, profile="x"))
    assert "CANARY" not in str(raised.value)
    config(home, SSO.replace("reader", "long"))
    aws.refusals["portal"] = (200, b" " * 100_000, 9)
    with pytest.raises(PermissionError, match="its answer is too long"):
        hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options(server, profile="x"))


def test_which_credentials_are_taken(
    home: Path, aws: Aws, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials are chosen in the order of AWS's own tools.

    The environment (unless a profile is named), a role, SSO, keys, a program.
    """
    own = "aws_access_key_id = FILE\naws_secret_access_key = CANARY\n"
    line = f"credential_process = {program(home)}\n"
    sso = SSO.replace("[profile x]\n", f"[default]\n{line}").replace("reader", "chosen")
    token(home, "my sso")
    (home / ".aws" / "credentials").write_text(f"[default]\n{own}")

    botocore = pytest.importorskip("botocore.session")
    # botocore reads the home directory when it is imported, perhaps by an earlier test.
    for provider in ("tokens.SSOTokenProvider", "credentials.SSOProvider"):
        cache = str(home / ".aws" / "sso" / "cache")
        monkeypatch.setattr(f"botocore.{provider}._SSO_TOKEN_CACHE_DIR", cache)

    def first(**others: Any) -> str:
        """Returns the key that signs requests. botocore must find a key of the same origin."""
        judge = botocore.Session(profile=others.get("profile")).get_credentials()
        aws.asked.clear()
        server.reset()
        hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options(server, **others))
        [(key, _)] = keys(server)
        if "key" not in others:
            assert judge.access_key.rstrip("0123456789") == key.rstrip("0123456789")
        return key

    config(home, sso + f"[profile role]\nrole_arn = {ROLE}-chosen\nsource_profile = default\nregion = x\n")
    assert first() == "SSO1"
    assert first(profile="role") == "STS2"
    config(home, f"[default]\n{line}")
    assert first() == "FILE"
    (home / ".aws" / "credentials").unlink()
    assert first() == "PROGRAM"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "CANARY")
    assert first() == "ENV" and first(profile="default") == "PROGRAM"
    assert first(key="GIVEN", secret="CANARY") == "GIVEN"


def test_moto_takes_the_signatures(home: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moto checks signatures, and the permissions of a role."""
    with running_or_skipped("moto") as moto:
        botocore = pytest.importorskip("botocore.session")
        port = int(moto.url.rsplit(":", 1)[1])
        here = {"endpoint_url": moto.url, "region_name": "us-east-1"}
        root = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
        iam = botocore.Session().create_client("iam", **here, **root)
        allow = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
        iam.create_user(UserName="u")
        iam.put_user_policy(UserName="u", PolicyName="p", PolicyDocument=json.dumps(allow))
        key = iam.create_access_key(UserName="u")["AccessKey"]
        anybody = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}
        trust = {"Version": "2012-10-17", "Statement": [anybody]}
        role = iam.create_role(RoleName="r", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
        iam.put_role_policy(RoleName="r", PolicyName="p", PolicyDocument=json.dumps(allow))
        assert request(port, "POST", "/moto-api/reset-auth", b"0")[0] == 200
        monkeypatch.setenv("AWS_ENDPOINT_URL", moto.url)
        monkeypatch.delenv("AWS_ENDPOINT_URL_STS")
        text = f"[profile r]\nrole_arn = {role}\nsource_profile = keys\nregion = us-east-1\n"
        text += f"[profile keys]\naws_access_key_id = {key['AccessKeyId']}\naws_secret_access_key = "
        config(home, text + key["SecretAccessKey"])
        hs.create_array("s3://bucket/m.zarr", data=np.arange(4), storage_options={"profile": "r"})
        assert hs.open_array("s3://bucket/m.zarr", storage_options={"profile": "r"})[:].tolist() == [
            0,
            1,
            2,
            3,
        ]
        config(home, text + "x" * len(key["SecretAccessKey"]))
        with pytest.raises(PermissionError, match="'r' may not take role"):
            hs.open_array("s3://bucket/m.zarr", storage_options={"profile": "r", "client_kwargs": {}})
