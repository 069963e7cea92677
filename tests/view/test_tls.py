"""HTTPS by `--certfile` and `--keyfile`, with the real command."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from rolltrace.cli import main

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
            "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem",
            "-out", folder / "cert.pem",
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder / "cert.pem", folder / "key.pem"


def test_with_a_certificate_it_is_https_and_the_cookie_is_secure(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    certfile, keyfile = certificate
    command = [
        sys.executable,
        "-m",
        "rolltrace",
        "view",
        str(tmp_path),
        "--port",
        "0",
        "--no-browser",
        "--token",
        TOKEN,
    ]
    command += ["--certfile", str(certfile), "--keyfile", str(keyfile)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            link = next(found[0] for line in server.stdout if (found := re.search(r"https://\S+", line)))
            with httpx.Client(verify=ssl.create_default_context(cafile=certfile), timeout=60) as client:
                answer = client.get(link)
                assert "secure" in answer.headers["set-cookie"].lower()
                assert client.get(link.partition("?")[0] + "api/status").status_code == 200
                with pytest.raises(httpx.TransportError):
                    client.get(link.replace("https", "http"))
        finally:
            server.kill()


def test_files_that_are_no_certificate_are_named(
    tmp_path: Path, certificate: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    certfile, keyfile = map(str, certificate)
    store, wrong = tmp_path / "store", tmp_path / "wrong.pem"
    store.mkdir()
    wrong.write_text("no certificate")
    for options in (
        ["--certfile", str(wrong)],
        ["--certfile", str(tmp_path / "none.pem")],
        ["--certfile", certfile],  # has no key
        ["--certfile", certfile, "--keyfile", str(wrong)],
    ):
        assert main(["view", str(store), "--no-browser", *options]) == 1
        message = capsys.readouterr().err
        assert len(message.splitlines()) == 1
        assert options[-1] in message
    assert main(["view", str(store), "--no-browser", "--keyfile", keyfile]) == 1
    assert "--certfile FILE" in capsys.readouterr().err
