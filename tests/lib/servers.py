"""Starts real object store servers: moto, azurite, fake-gcs-server, nginx (S3, Azure, GCS, HTTP).

`scripts/test-servers.sh` installs them. If a server is missing, its tests are skipped. With
HYPERSLAB_NEED_SERVERS, as in continuous integration, they fail instead. For tests in other
languages,

    python tests/lib/servers.py moto

prints a line of JSON (``url``, ``options`` under the names of the `object_store` crate, ``folder``)
and serves until its standard input ends. If the server is not installed, it prints an empty object.
There is one bucket (or container), ``bucket``. For nginx it is the served folder.
"""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gcs_front import front

INSTALLED = Path(__file__).parents[2] / "build" / "servers"

# Runs a command until it ends or standard input closes, which also happens if the test is killed.
WHILE_STDIN = 'exec 3<&0; "$@" 3<&- & child=$!; (cat <&3 > /dev/null; kill $child) & wait $child'


@dataclass
class Running:
    """A server, ready for requests."""

    url: str
    # The options for `bucket` of the `object_store` crate (and obstore).
    options: dict[str, str]
    # For nginx: the served folder.
    folder: Path


@contextmanager
def running(name: str) -> Iterator[Running]:
    """Starts a server without objects, by its name. It ends with the block."""
    kind = KINDS[name]
    with tempfile.TemporaryDirectory(prefix="hyperslab-server-") as directory:
        folder = Path(directory)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with (folder / "log").open("wb") as log:
            shell = ["sh", "-c", WHILE_STDIN, "sh", str(kind.program), *kind.arguments(port, folder)]
            process = subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=folder)
        assert process.stdin is not None
        try:
            if not answers(port, process):
                raise RuntimeError(f"{name} does not start:\n{(folder / 'log').read_text()}")
            with kind.front(port) as asked:
                yield kind.prepare(asked, folder)
        finally:
            process.stdin.close()
            process.wait()


def answers(port: int, process: subprocess.Popen[bytes]) -> bool:
    """Waits for a server. Returns true if it answers."""
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        try:
            request(port, "GET", "/")
            return True
        except OSError:
            time.sleep(0.05)
    return False


def request(
    port: int, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def expect(status: int, found: tuple[int, bytes]) -> None:
    if found[0] != status:
        raise RuntimeError(f"status {found[0]}, not {status}: {found[1].decode(errors='replace')}")


# ------------------------------------------------------------------------------------------ moto


def moto_arguments(port: int, folder: Path) -> list[str]:
    return ["-H", "127.0.0.1", "-p", str(port)]


def moto(port: int, folder: Path) -> Running:
    expect(200, request(port, "PUT", "/bucket", headers={"host": f"127.0.0.1:{port}"}))
    url = f"http://127.0.0.1:{port}"
    options = {"endpoint": url, "access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}
    return Running(url, {**options, "allow_http": "true"}, folder)


# --------------------------------------------------------------------------------------- azurite

# Azurite's account, the same on every machine.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def azurite_arguments(port: int, folder: Path) -> list[str]:
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    return [*where, "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]


def azurite(port: int, folder: Path) -> Running:
    date, version = email.utils.formatdate(usegmt=True), "2021-08-06"
    # Azure's "shared key": https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
    headers = f"x-ms-date:{date}\nx-ms-version:{version}\n"
    text = "PUT" + "\n" * 12 + headers + f"/{ACCOUNT}/{ACCOUNT}/bucket\nrestype:container"
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
    signed = {"x-ms-date": date, "x-ms-version": version, "authorization": f"SharedKey {ACCOUNT}:{signature}"}
    expect(201, request(port, "PUT", f"/{ACCOUNT}/bucket?restype=container", headers=signed))
    url = f"http://127.0.0.1:{port}/{ACCOUNT}"
    options = {"endpoint": url, "account_name": ACCOUNT, "account_key": KEY, "allow_http": "true"}
    return Running(url, options, folder)


# ------------------------------------------------------------------------------- fake-gcs-server


def fake_gcs_server_arguments(port: int, folder: Path) -> list[str]:
    where = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    return [*where, "-backend", "memory", "-public-host", f"127.0.0.1:{port}"]


def fake_gcs_server(port: int, folder: Path) -> Running:
    json_text = {"content-type": "application/json"}
    expect(200, request(port, "POST", "/storage/v1/b", b'{"name": "bucket"}', json_text))
    url = f"http://127.0.0.1:{port}"
    account = {"gcs_base_url": url, "disable_oauth": True}
    account |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    return Running(url, {"service_account_key": json.dumps(account), "allow_http": "true"}, folder)


# ----------------------------------------------------------------------------------------- nginx

NGINX = """\
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        root {folder}/files;
    }}
}}
"""


def nginx_arguments(port: int, folder: Path) -> list[str]:
    (folder / "files").mkdir()
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port))
    return ["-c", str(folder / "nginx.conf"), "-p", str(folder), "-e", "stderr"]


def nginx(port: int, folder: Path) -> Running:
    return Running(f"http://127.0.0.1:{port}", {"allow_http": "true"}, folder / "files")


@dataclass
class Kind:
    """How to start a server (by port and folder) and prepare it."""

    program: Path
    arguments: Callable[[int, Path], list[str]]
    prepare: Callable[[int, Path], Running]
    # Starts a server in front of the one on a port. Yields its own port.
    front: Callable[[int], AbstractContextManager[int]] = nullcontext


KINDS = {
    "moto": Kind(INSTALLED / "moto" / "bin" / "moto_server", moto_arguments, moto),
    "azurite": Kind(
        INSTALLED / "azurite" / "node_modules" / ".bin" / "azurite-blob", azurite_arguments, azurite
    ),
    "fake-gcs-server": Kind(
        INSTALLED / "bin" / "fake-gcs-server", fake_gcs_server_arguments, fake_gcs_server, front
    ),
    "nginx": Kind(INSTALLED / "bin" / "nginx", nginx_arguments, nginx),
}


def require(name: str, program: Path) -> None:
    """Skips a test if a program is missing. It fails if all programs are required."""
    import pytest

    if not program.exists():
        reason = f"{name} is not installed: scripts/test-servers.sh"
        if os.environ.get("HYPERSLAB_NEED_SERVERS"):
            pytest.fail(reason)
        pytest.skip(reason)


def tool(name: str) -> Path:
    """Returns one of HDF5's tools, such as ``h5dump``. Skips the test if it is missing."""
    program = INSTALLED / "bin" / name
    require(name, program)
    return program


@contextmanager
def running_or_skipped(name: str) -> Iterator[Running]:
    """Like `running`, for tests: skips if the server is missing, unless all are required."""
    require(name, KINDS[name].program)
    with running(name) as server:
        yield server


@contextmanager
def started() -> Iterator[Callable[[str], Running]]:
    """Yields a function that starts a server on first use, by name. All end with the block."""
    with ExitStack() as stack:
        yield cache(lambda name: stack.enter_context(running_or_skipped(name)))


def obstore_of(name: str, server: Running, prefix: str = "") -> Any:
    """Returns obstore's view of a server: the bucket or a part of it."""
    from obstore.store import AzureStore, GCSStore, HTTPStore, S3Store

    options = dict(server.options)
    client: Any = {"allow_http": options.pop("allow_http") == "true"}
    if name == "nginx":
        return HTTPStore(f"{server.url}/{prefix}", client_options=client)
    kinds: dict[str, Any] = {"moto": S3Store, "azurite": AzureStore, "fake-gcs-server": GCSStore}
    return kinds[name]("bucket", prefix=prefix or None, config=options, client_options=client)


def main() -> None:
    """Starts the server named on the command line."""
    name = sys.argv[1]
    if not KINDS[name].program.exists():
        print("{}")
        return
    with running(name) as server:
        found = {"url": server.url, "options": server.options, "folder": str(server.folder)}
        print(json.dumps(found), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
