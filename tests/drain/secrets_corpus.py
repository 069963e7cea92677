"""Secrets as they are met, each in the words around it, and what looks like one and is none.

The random parts are made here, from a seed, so that no file of this repository holds anything that looks like a key.
"""

from __future__ import annotations

import base64
import random
import string
from typing import Any, NamedTuple

_rng = random.Random(20_260)
ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + "234567"


class Planted(NamedTuple):
    """A secret, and a value that holds it."""

    label: str
    secret: str
    value: Any
    """Text, or a structure of dicts and lists."""
    pieces: tuple[str, ...] = ()
    """What it was cut into; in the text of the value it does not stand as a whole then."""

    @property
    def traces(self) -> tuple[str, ...]:
        """None of these may be found anywhere."""
        return tuple(piece for piece in self.pieces if len(piece) > 5) or (self.secret,)


def rnd(count: int, letters: str = ALNUM) -> str:
    """Random characters, with at least a digit and a letter where the alphabet has both."""
    while True:
        made = "".join(_rng.choices(letters, k=count))
        if count < 8 or len({char.isdigit() for char in made}) == len({char.isdigit() for char in letters}):
            return made


def _jwt() -> str:
    said = [b'{"alg":"HS256","typ":"JWT"}', f'{{"sub":"{rnd(12)}"}}'.encode()]
    return ".".join([*(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in said), rnd(43)])


def _pem(kind: str) -> str:
    lines = "\n".join(rnd(64, ALNUM + "+/") for _ in range(6))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----"


SHAPED: dict[str, list[str]] = {
    "openai key": ["sk-" + rnd(48), "sk-proj-" + rnd(60, ALNUM + "-_"), "sk-svcacct-" + rnd(70)],
    "anthropic key": ["sk-ant-" + "api03-" + rnd(80)],
    "openrouter key": ["sk-or-" + "v1-" + rnd(64, HEX)],
    "github token": [f"gh{letter}_" + rnd(36) for letter in "pousr"] + ["github_pat_" + rnd(22) + "_" + rnd(59)],
    "gitlab token": ["glpat-" + rnd(20), "glptt-" + rnd(40, HEX), "glrt-" + rnd(20)],
    "huggingface token": ["hf_" + rnd(34)],
    "aws key": ["AKIA" + rnd(16, UPPER), "ASIA" + rnd(16, UPPER)],
    "google key": ["AIza" + rnd(35)],
    "google token": ["ya29." + rnd(60)],
    "google secret": ["GOCSPX-" + rnd(28)],
    "slack token": [
        "xoxb-" + rnd(12, string.digits) + "-" + rnd(24),
        "xoxp-" + rnd(12, string.digits) + "-" + rnd(32, HEX),
    ],
    "slack webhook": ["hooks.slack.com/services/T" + rnd(8, UPPER) + "/B" + rnd(8, UPPER) + "/" + rnd(24)],
    "stripe key": ["sk_live_" + rnd(24), "rk_live_" + rnd(24), "sk_test_" + rnd(24)],
    "twilio key": ["SK" + rnd(32, HEX)],
    "sendgrid key": ["SG." + rnd(22) + "." + rnd(43)],
    "npm token": ["npm_" + rnd(36)],
    "pypi token": ["pypi-" + "AgEIcHlwaS5vcmc" + rnd(80)],
    "xai key": ["xai-" + rnd(80)],
    "replicate token": ["r8_" + rnd(37)],
    "databricks token": ["dapi" + rnd(32, HEX)],
    "together key": ["tgp_v1_" + rnd(43)],
    "groq key": ["gsk_" + rnd(52)],
    "perplexity key": ["pplx-" + rnd(48)],
    "fireworks key": ["fw_" + rnd(24)],
    "pinecone key": ["pcsk_" + rnd(6) + "_" + rnd(60)],
    "nvidia key": ["nvapi-" + rnd(64)],
    "langsmith key": ["lsv2_pt_" + rnd(32, HEX) + "_" + rnd(10, HEX)],
    "telegram token": [rnd(9, "123456789") + ":AA" + rnd(33)],
    "discord token": ["M" + rnd(23) + "." + rnd(6) + "." + rnd(38)],
    "jwt": [_jwt()],
    "private key": [
        _pem(kind) for kind in ("PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK")
    ],
}
"""Known by their shape, wherever they stand."""

_AROUND = ("use {} now", '"{}"', "{}", "key={}&x=1", "see `{}`.", "(\t{})\n", "你好{}。")

STRONG_NAMES = (
    "api_key",
    "apiKey",
    "API-KEY",
    "openai_api_key",
    "WANDB_API_KEY",
    "x-api-key",
    "X-Goog-Api-Key",
    "hf_token",
    "HF_TOKEN",
    "GITHUB_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "aws_session_token",
    "accessToken",
    "access_token",
    "refresh_token",
    "id_token",
    "authToken",
    "bot_token",
    "clientSecret",
    "client_secret",
    "webhook_secret",
    "private_key",
    "signing_key",
    "DB_PASSWORD",
    "db_password",
    "smtpPassword",
    "user_passwd",
    "Authorization",
    "Proxy-Authorization",
    "Cookie",
    "Set-Cookie",
    "passphrase",
    "credentials",
    "azure_storage_account_key",
    "api_keys",
    "api_key_2",
    "APIKEY",
    "mysql_pwd",
    "personal access token",
    "session.token",
)
WEAK_NAMES = ("token", "secret", "password", "auth", "game_secret", "user_token", "令牌")


def _planted() -> list[Planted]:
    found = []
    for kind, secrets in SHAPED.items():
        for at, secret in enumerate(secrets):
            places = (_AROUND[at % len(_AROUND)], _AROUND[(at + 2) % len(_AROUND)])
            found += [Planted(f"{kind} in {around!r}", secret, around.format(secret)) for around in places]
    for name in STRONG_NAMES:
        secret = rnd(14)
        found.append(Planted(f"value of {name}", secret, {"config": [1, {name: secret}]}))
    for name in STRONG_NAMES[:6]:
        secret = rnd(14, string.ascii_lowercase)
        found.append(Planted(f"value of {name}, letters only", secret, {name: secret}))
        secret = rnd(14)
        found.append(Planted(f"values of {name}", secret, {name: ["first", secret]}))
        secret = rnd(14)
        found.append(Planted(f"value of {name} as bytes", secret, {name: secret.encode()}))
    for name in WEAK_NAMES:
        secret = rnd(20)
        found.append(Planted(f"value of {name}", secret, {name: secret}))
    passwords = ("hunter2" + rnd(1, string.digits), "p@ss" + rnd(4), "Tr0ub4dor&" + rnd(2))
    found += [Planted("a password", secret, {"password": secret}) for secret in passwords]
    word = rnd(9, string.ascii_lowercase)
    found.append(Planted("a password with its user", word, {"user": "bob", "password": word}))
    for name in ("Authorization", "x-api-key", "X-Auth-Token", "Cookie", "api_key"):
        secret = rnd(24)
        said = f"Bearer {secret}" if name == "Authorization" else secret
        found.append(Planted(f"pair {name}", secret, {"headers": [["Accept", "*/*"], [name, said]]}))
        secret = rnd(24)
        found.append(Planted(f"bytes pair {name}", secret, [(name.lower().encode(), secret.encode())]))
        secret = rnd(24)
        found.append(Planted(f"name/value {name}", secret, [{"name": name, "value": secret}]))
        secret = rnd(24)
        found.append(Planted(f"key/value {name}", secret, {"env": [{"key": name, "value": secret}]}))
    for name in ("DB_PASSWORD", "OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "CLIENT_SECRET"):
        for line in (
            "{}={}",
            "export {}={}",
            "PATH=/bin\n{}={}\nHOME=/root",
            "ENV {}={}",
            "set {}={} && run",
            "{}='{}'",
        ):
            secret = rnd(12)
            found.append(Planted(f"line {line!r}", secret, line.format(name, secret)))
    for line in (
        "mysql --password={}",
        "tool --api-key {} run",
        "tool --api-key={}",
        "tool --token {}",
        "gh --auth-token '{}'",
        "curl -u admin:{} https://x.org",
        'curl -H "Authorization: Bearer {}" https://x',
        "curl -H 'x-api-key: {}' x.org",
        "wandb --apikey={}",
        "Authorization: Basic {}",
        "Authorization: {}",
        "GET /?api_key={}&page=2 HTTP/1.1",
        "Cookie: session={}; theme=dark",
        "https://x.org/cb?access_token={}#top",
        "my client_secret is in client_secret: {}",
        'config = {{"api_key": "{}"}}',
        '{{"a": 1, "password": "{}"}}',
        '{{\\"api_key\\": \\"{}\\"}}',
        "{{'clientSecret': '{}'}}",
        'api_key="{}"',
        'API_KEY = "{}"',
        'os.environ["OPENAI_API_KEY"] = "{}"',
        "password: {}",
        "db_password: '{}'",
        "machine x.org login bob password {}",
        "machine x.org\nlogin bob\npassword {}",
        "Server=db;User Id=sa;Password={};",
        "host=db user=bob password={} dbname=x",
        "DefaultEndpoints=https;AccountKey={}==;",
        "https://x.blob.core.windows.net/a?sv=2022&sig={}%3D",
        "secret_key = b'{}'",
        "token => '{}'",
        "API key: {}",
        '{{"type": "http", "headers": {{"Authorization": "Bearer {}"}}}}',
        "//registry.npmjs.org/:_authToken={}",
    ):
        secret = rnd(30)
        found.append(Planted(f"text {line!r}", secret, line.format(secret)))
    pair = base64.b64encode(f"bob:{rnd(17)}".encode()).decode()
    found.append(Planted("basic auth", pair, f"sent Basic {pair} to it"))
    for url, secret in (
        ("redis://:{}@host:6379/0", rnd(8)),
        ("postgres://bob:{}@db/x", rnd(8)),
        ("https://bob:{}@x.org", "a:" + rnd(6)),
        ("https://bob:{}@x.org/y", "a/" + rnd(6)),
        ("mongodb+srv://bob:{}@c.net", "p%40" + rnd(6)),
        ("amqp://bob:{}@[::1]:5672", rnd(8)),
        ("https://bob:{}@x.org", "p@" + rnd(6)),
        ("see http://a:{}@b, then", rnd(5)),
        ("https://{}@github.com/a/b.git", "ghp_" + rnd(36)),
        ("https://{}@x.org/y", rnd(40, HEX)),
        ("git clone https://x-access-token:{}@github.com/a/b", rnd(30)),
        ("http://user:{}@proxy:3128", "pass-" + rnd(5)),
    ):
        found.append(Planted(f"url {url!r}", secret, url.format(secret)))
    aws = rnd(40, ALNUM + "/+")
    found.append(Planted("aws secret", aws, f"AKIA{rnd(16, UPPER)},{aws}"))
    wandb = rnd(40, HEX)
    found.append(Planted("wandb key", wandb, f"$ wandb login {wandb}"))
    for count in (3, 8):
        secret = "sk-" + rnd(48)
        pieces = _cut(secret, count)
        found.append(Planted(f"in {count} strings", secret, ["use ", *pieces, " now"], pieces))
    secret = "ghp_" + rnd(36)
    pieces = _cut(secret, 5)
    chunks = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    found.append(Planted("chunks", secret, {"items": chunks, "count": 5, "end": "exhausted"}, pieces))
    secret = "gsk_" + rnd(52)
    pieces = _cut(secret, 2)
    found.append(Planted("over two long texts", secret, ["long " * 99 + pieces[0], pieces[1] + " long" * 99], pieces))
    secret = rnd(20)
    pieces = _cut(secret, 2)
    found.append(Planted("a name and its value in pieces", secret, ["OPENAI_", "API_", "KEY=", *pieces, "\n"], pieces))
    secret = "sk-" + rnd(48)
    found.append(Planted("in a key", secret, {"by key": {secret: 1, "other": 2}}))
    secret = "sk-" + rnd(48)
    found.append(Planted("in bytes", secret, {"body": f"x {secret}".encode()}))
    secret = "sk-" + rnd(48)
    found.append(Planted("after an escape", secret, f'{{"log": "line\\n{secret}\\n"}}'))
    secret = "sk-" + rnd(48)
    found.append(Planted("after a number", secret, [1, 2.5, secret]))
    return found


def _cut(secret: str, count: int) -> tuple[str, ...]:
    size = -(-len(secret) // count)
    return tuple(secret[at : at + size] for at in range(0, len(secret), size))


PLANTED = _planted()

HARMLESS: list[Any] = [
    # words that begin as keys do
    "sk-learn-compatible-estimators",
    "task-oriented ask-me risk-free sk-short",
    "ghost_writer_of_the_whole_story_told",
    "hf_hub_download_with_progress_bar_enabled",
    "npm_config_registry_url_of_the_whole_company",
    "xai-organization-papers-2024",
    "fw_update_manager_service_interface",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "sk-your-api-key-goes-here-please",
    "sk-model-v2-20240101-checkpoint-final",
    "pypi-packages-that-are-well-maintained-and-tested",
    "eyJust",
    "r8_small_model",
    "gsk_pharma_company_annual_report_for_investors",
    "glpat- prefix",
    "AKIA" + "IOSFODNN7" + "EXAMPLE",
    "ASIAPACIFICREGIONALS",
    "AKIAnot",
    "the prefix sk- is OpenAI's, ghp_ GitHub's, AKIA that of AWS",
    "xoxb-",
    "SG.",
    "dapi_client_of_the_department",
    "secret_santa_list_of_the_whole_office_party",
    "key-value-stores-are-fast-and-simple-to-use",
    "SKILLS-AND-ABILITIES-2024",
    # hashes, ids, numbers, code points
    rnd(40, HEX),
    rnd(64, HEX),
    rnd(32, HEX),
    f"commit {rnd(40, HEX)}",
    f"sha256:{rnd(64, HEX)}",
    f"index {rnd(7, HEX)}..{rnd(7, HEX)}",
    "550e8400-e29b-41d4-a716-446655440000",
    "0x" + rnd(40, HEX),
    "0x" + rnd(64, HEX),
    "chatcmpl-" + rnd(29),
    "call_" + rnd(24),
    "toolu_" + rnd(24),
    "msg_" + rnd(24),
    "resp_" + rnd(24),
    "run-" + rnd(8),
    "arn:aws:iam::123456789012:user/bob",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "ACGT" * 20,
    "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ",
    "3.14159265358979",
    "data:image/png;base64," + rnd(300, ALNUM + "+/"),
    "iVBORw0KGgo" + "AKIA" + "IOSFODNN7ABCDEFG" + rnd(60, ALNUM + "+/"),
    "2024-01-01T00:00:00.000Z",
    "192.168.0.1:8080",
    "v1.2.3-rc4+build.567",
    "H4sIAAAAAAAA" + rnd(120, ALNUM + "+/"),
    "C[C@@H](C(=O)O)N",
    "1. e4 e5 2. Nf3 Nc6 3. Bb5 a6",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "-" * 200,
    "=" * 200,
    "_" * 200,
    # prose about secrets
    "Bearer of bad news, he came at dawn",
    "the bearer of responsibilities-and-duties-in-general",
    "Basic instinct",
    "Basic research",
    "the password is wrong",
    "Enter your password: ",
    "API key required",
    "API key: required",
    "Please set your API key.",
    "a token: a small thing",
    "secret: nobody knows",
    "the secret = hard work",
    "password: must have eight characters or more",
    "Author: Bob",
    "author=bob",
    "keyboard: qwerty",
    "monkey=banana",
    "hotkey: ctrl+c",
    "turkey: a bird",
    "donkey = kong",
    "The key: persistence",
    "the key = value pairs",
    "key=value",
    "a key: C# minor",
    "primary_key=id",
    "sort_key=name",
    "foreign_key: user_id",
    "public_key: " + rnd(44, ALNUM),
    "cache_key=abc123def456",
    "token: the",
    "tokens: 512",
    "n_tokens=128",
    "max_tokens=1000",
    "num_tokens: 42",
    "token_type: bearer",
    "next_page_token=" + rnd(20),
    "eos_token='<|endoftext|>'",
    "pad_token: <pad>",
    "He said: -----BEGIN PRIVATE KEY----- is how such a file begins, and then base64 follows.",
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    "-----BEGIN PUBLIC KEY-----\n" + rnd(64) + "\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\n" + rnd(64) + "\n-----END CERTIFICATE-----",
    "a secret_word = 'crane'",
    "pass: 3, fail: 4",
    "passed=True",
    "compass: north",
    "class=big",
    "bypass: yes",
    "signature: def f(x: int) -> str",
    "config=default",
    "authors: 3",
    "auth: none",
    # code
    "api_key=os.environ['KEY']",
    "api_key = get_key()",
    "def f(api_key: str, token: str | None = None) -> None:",
    "password=getpass()",
    "self.token = token",
    "token = tokens[0]",
    "token: Token = next(stream)",
    "const token: string = props.token;",
    'password = ""',
    "secret=settings.SECRET",
    'f"password={password}"',
    "${API_KEY}",
    "api_key=${API_KEY}",
    "API_KEY=$KEY",
    "API_KEY=<your key>",
    "API_KEY=your-key-here",
    "token={{ token }}",
    "PASSWORD=********",
    "api_key='xxxxxxxx'",
    'headers["Authorization"] = f"Bearer {token}"',
    '"Authorization": "Bearer " + token',
    "sorted(items, key=lambda item: item.key)",
    "if token == 'the':",
    "args.api_key or None",
    "for token in tokens: print(token)",
    "--token-count 5 --max-tokens=100",
    "--password-file /run/x",
    "---\ntitle: x\n---",
    "x --> y",
    "a -- b",
    "assert secret == 'crane'",
    "password: str = Field(...)",
    "token_ids=[1, 2]",
    '{"type": "string", "description": "API key"}',
    # URLs
    "https://example.org/a@b",
    "https://registry.npmjs.org:443/@scope/pkg",
    "http://localhost:8000/users/@me",
    "git@github.com:a/b.git",
    "https://medium.com/@bob/story",
    "mailto:a@b.c",
    "https://x.org/?q=a:b@c",
    "http://user:password@host",
    "https://<user>:<password>@host",
    "https://${USER}:${PASS}@host",
    "ssh://git@github.com/a/b",
    "https://x.org:8080/path:with@signs",
    "https://x.org see a@b.c",
    "://@",
    "https://hooks.slack.com/",
    "s3://bucket/key=1/part-0001.parquet",
    "file:///tmp/a@2x.png",
    "docker://img@sha256:" + rnd(64, HEX),
    # structures
    {"secret": "crane"},
    {"password": ""},
    {"password": None},
    {"secret": 0},
    {"token": "the"},
    {"tokens": ["the", "cat"]},
    {"token": 42},
    {"token": "Ġunderstanding"},
    {"token": "<|endoftext|>"},
    {"eos_token": "</s>"},
    {"max_tokens": 100},
    {"usage": {"total_tokens": 5}},
    {"key": "value"},
    {"keys": ["a", "b"]},
    {"next_page_token": rnd(24)},
    {"secret_word": "crane"},
    {"author": "bob"},
    {"password": "swordfish"},
    {"authorization": None},
    {"api_key": ""},
    {"api_key": "<your key>"},
    {"api_key": "${API_KEY}"},
    {"api_key": True},
    {"api_key": "none"},
    {"properties": {"api_key": {"type": "string", "description": "The API key."}, "password": {"type": "string"}}},
    {"required": ["api_key", "password"]},
    {"required": ["api_key", "model", "token"]},
    ["password", "username"],
    ["token", "type"],
    {"name": "city", "value": "Paris"},
    {"key": "lang", "value": "en"},
    {"name": "search", "arguments": {"query": "api key leak"}},
    {"role": "user", "content": "What is an API key?"},
    {"secret": "the butler did it"},
    {"hint": "token"},
    [1, 2, 3],
    [0.5, -1.0],
    [[1, 2], [3]],
    {"tokens": [1, 2]},
    5,
    None,
    True,
    b"sk-bytes",
    b"\xff\xfe\x00",
    ["sk", "-", "learn", "-", "based"],
    ["a", "b"],
    [],
    {},
    "",
    {"public_key": rnd(44)},
    {"token_type": "bearer"},
    {"monkey": "banana"},
    {"keyboard": "qwerty"},
    {"id": rnd(32, HEX)},
    {"sha": rnd(40, HEX)},
    {"password": "The password that the user chose for this account"},
    {"api_key": "You need an API key for that."},
]
"""Must stay as they are, byte for byte."""
