"""Secrets as they are met, each in the words around it, and what looks like one and is none.

The random parts are made here, from a seed, so that no file of this repository holds anything that looks like a key.
"""

from __future__ import annotations

import base64
import random
import re
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


def _jwe(algorithm: str) -> str:
    head = base64.urlsafe_b64encode(f'{{"alg":"{algorithm}","enc":"A256GCM"}}'.encode()).decode().rstrip("=")
    return ".".join([head, "" if algorithm == "dir" else rnd(86), rnd(16), rnd(60), rnd(22)])


def _pem(kind: str) -> str:
    lines = "\n".join(rnd(64, ALNUM + "+/") for _ in range(6))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----"


_LETTERS = {
    "alnum": ALNUM,
    "hex": HEX,
    "HEX": HEX.upper(),
    "upper": string.ascii_uppercase + string.digits,
    "base32": UPPER,
    "lower": string.ascii_lowercase + string.digits,
    "digits": string.digits,
    "letters": string.ascii_letters,
    "word": ALNUM + "_-",
    "base64": ALNUM + "+/",
}


def _made(template: str) -> str:
    """`ghp_{alnum:36}` with random characters. The first one is a letter or a digit, as in nearly all keys."""
    return re.sub(
        r"\{(\w+):(\d+)\}",
        lambda match: (
            rnd(1, ALNUM if match[1] in ("word", "base64") else _LETTERS[match[1]])
            + rnd(int(match[2]) - 1, _LETTERS[match[1]])
        ),
        template,
    )


_VENDORS_KEYS = """
1password key      | A3-{upper:6}-{upper:6}-{upper:5}-{upper:5}-{upper:5}-{upper:5}
1password token    | ops_eyJ{alnum:260}
adafruit key       | aio_{alnum:28}
adobe secret       | p8e-{alnum:32}
age key            | AGE-SECRET-KEY-1{upper:58}
airtable token     | pat{alnum:14}.{hex:64}
alibaba key        | LTAI{alnum:20}
anthropic key      | sk-ant-api03-{word:93}AA  sk-ant-admin01-{word:93}AA  sk-ant-oat01-{word:80}AA
apify key          | apify_api_{alnum:36}
artifactory key    | AKCp{alnum:69}
artifactory token  | cmVmdGtu{alnum:56}  cmVmd{alnum:59}
atlassian token    | ATATT3xFfGF0{word:170}={HEX:8}  ATCTT3xFfGN0{word:170}={HEX:8}  ATBB{alnum:32}
authress key       | sc_{lower:10}.{lower:5}.acc_{lower:16}.{base64:43}
aws bedrock key    | ABSK{alnum:130}=  bedrock-api-key-{alnum:60}
aws key            | AKIA{base32:16}  ASIA{base32:16}  ABIA{base32:16}  ACCA{base32:16}
azure secret       | {alnum:3}8Q~{word:34}
bannerbear key     | bb_pr_{hex:30}  bb_ma_{hex:30}
bitbucket token    | BBDC-{base64:44}
buildkite token    | bkua_{lower:40}
cerebras key       | csk-{lower:48}
circleci token     | CCIPAT_{alnum:22}_{hex:40}
clickhouse secret  | 4b1d{alnum:38}
clojars token      | CLOJARS_{lower:60}
cloudflare token   | v1.0-{hex:24}-{hex:146}  cfut_{alnum:40}{hex:8}  cfk_{alnum:40}{hex:8}
contentful token   | CFPAT-{word:43}
databricks token   | dapi{hex:32}
definednet key     | dnkey-{upper:26}-{upper:52}
deno token         | ddp_{alnum:36}  ddw_{alnum:36}
digitalocean token | dop_v1_{hex:64}  doo_v1_{hex:64}  dor_v1_{hex:64}
docker token       | dckr_pat_{word:27}  dckr_oat_{word:32}
doppler token      | dp.pt.{alnum:43}  dp.ct.{alnum:43}  dp.st.dev.{alnum:43}
dropbox token      | sl.{word:135}
duffel token       | duffel_test_{word:43}  duffel_live_{word:43}
dynatrace token    | dt0c01.{upper:24}.{upper:64}
e2b key            | e2b_{hex:40}
easypost key       | EZAK{alnum:54}  EZTK{alnum:54}
elevenlabs key     | sk_{hex:48}
endor token        | endr+{alnum:16}
facebook token     | EAAC{alnum:120}  {digits:16}|{word:27}
figma token        | figd_{word:40}
fireworks key      | fw_{alnum:24}
fleetbase key      | flb_live_{alnum:20}
flexport token     | shltm_{word:40}
flutterwave key    | FLWSECK-{hex:32}-X  FLWSECK_TEST-{hex:32}-X
flyio token        | fo1_{word:43}  fm2_{base64:120}
frameio token      | fio-u-{word:64}
github token       | ghp_{alnum:36}  gho_{alnum:36}  ghu_{alnum:36}
github token       | ghs_{alnum:36}  ghr_{alnum:36}  github_pat_{alnum:22}_{alnum:59}
gitlab cookie      | _gitlab_session={lower:32}
gitlab token       | glpat-{alnum:20}  glptt-{hex:40}  glrt-{alnum:20}
gitlab token       | gldt-{word:20}  glcbt-64_{word:20}  GR1348941{word:20}
gocardless token   | live_{word:40}
google key         | AIza{word:35}  AQ.Ab8{word:47}
google secret      | GOCSPX-{word:28}
google token       | ya29.{word:60}  1//0{word:60}
grafana key        | eyJrIjoi{alnum:80}
grafana token      | glsa_{alnum:32}_{hex:8}  glc_{base64:80}
groq key           | gsk_{alnum:52}
harness key        | pat.{alnum:22}.{alnum:24}.{alnum:20}
hashicorp token    | hvs.{word:95}  hvb.{word:140}
heroku key         | HRKU-AA{word:58}
hubspot token      | pat-na1-{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}
huggingface token  | hf_{letters:34}  hf_{alnum:34}  api_org_{letters:34}
infracost token    | ico-{alnum:32}
intra42 secret     | s-s4t2ud-{hex:64}
jina key           | jina_{hex:32}{word:28}
klaviyo key        | pk_{hex:34}
langfuse key       | sk-lf-{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}
langsmith key      | lsv2_pt_{hex:32}_{hex:10}  lsv2_sk_{hex:32}_{hex:10}
launchdarkly key   | sdk-{hex:8}-{hex:4}-4{hex:3}-{hex:4}-{hex:12}
linear key         | lin_api_{alnum:40}
lob key            | live_{hex:35}  test_{hex:35}
locationiq token   | pk.{hex:32}
mailgun key        | key-{hex:32}
mapbox token       | sk.eyJ1{alnum:76}.{alnum:22}
moonshot key       | sk-kimi-{alnum:48}
neon token         | napi_{lower:64}
netlify token      | nfp_{alnum:40}
newrelic key       | NRAK-{upper:27}  NRII-{word:32}  {hex:32}FFFFNRAL
nightfall key      | NF-{alnum:32}
notion token       | ntn_{digits:11}{alnum:35}  secret_{alnum:43}
npm token          | npm_{alnum:36}
nvidia key         | nvapi-{word:64}
octopus key        | API-{upper:26}
openai key         | sk-{alnum:48}  sk-proj-{word:60}  sk-svcacct-{word:70}  sk-admin-{word:70}
openrouter key     | sk-or-v1-{hex:64}
openshift token    | sha256~{word:43}
pagarme key        | ak_live_{alnum:30}
perplexity key     | pplx-{alnum:48}
pinecone key       | pcsk_{alnum:6}_{alnum:60}
plaid token        | access-sandbox-{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}
planetscale token  | pscale_tkn_{word:43}  pscale_pw_{word:43}  pscale_oauth_{word:43}
posthog key        | phx_{alnum:43}
postman key        | PMAK-{hex:24}-{hex:34}
prefect key        | pnu_{alnum:36}
pubnub key         | sub-c-{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}
pulumi token       | pul-{hex:40}
pypi token         | pypi-AgEIcHlwaS5vcmc{word:80}
ramp secret        | ramp_sec_{alnum:48}
razorpay key       | rzp_live_{alnum:14}
readme token       | rdme_{lower:70}
replicate token    | r8_{alnum:37}
robinhood key      | rh-api-{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}
rootly token       | rootly_{hex:64}
rubygems key       | rubygems_{hex:48}
salad key          | salad_cloud_user_{alnum:48}
salesforce secret  | 3MVG9{alnum:80}
salesforce token   | 5AEP861{alnum:80}
scalingo token     | tk-us-{word:48}
sendgrid key       | SG.{alnum:22}.{alnum:43}
sendinblue key     | xkeysib-{hex:64}-{alnum:16}
sentry token       | sntryu_{hex:64}  sntrys_eyJ{alnum:120}
settlemint token   | sm_aat_{alnum:16}  sm_pat_{alnum:16}
shippo token       | shippo_live_{hex:40}
shopify token      | shpat_{hex:32}  shpca_{hex:32}  shppa_{hex:32}  shpss_{hex:32}
slack token        | xoxb-{digits:12}-{alnum:24}  xoxp-{digits:12}-{hex:32}  xapp-1-{upper:11}-{digits:13}-{hex:64}
slack webhook      | hooks.slack.com/services/T{base32:8}/B{base32:8}/{alnum:24}
discord webhook    | discord.com/api/webhooks/{digits:18}/{word:68}
office webhook     | office.com/webhookb2/{hex:32}@{hex:32}/IncomingWebhook/{hex:32}/{hex:32}
sonarcloud token   | sqco_{alnum:59}
sonarqube token    | squ_{hex:40}  sqp_{hex:40}
sourcegraph token  | sgp_{hex:40}  sgp_local_{hex:40}  slk_{hex:64}
square token       | sq0atp-{word:22}  sq0csp-{word:43}
stripe key         | sk_live_{alnum:24}  rk_live_{alnum:24}  sk_test_{alnum:24}  whsec_{base64:32}
stripe secret      | pi_{alnum:24}_secret_{alnum:25}
supabase key       | sbp_{hex:40}  sb_secret_{word:31}
tailscale key      | tskey-auth-{alnum:12}-{alnum:32}
tavily key         | tvly-{alnum:32}
telegram token     | {digits:9}:AA{alnum:33}
terraform token    | {alnum:14}.atlasv1.{word:67}
together key       | tgp_v1_{word:43}
twilio key         | SK{hex:32}
typeform token     | tfp_{alnum:44}
ubidots token      | BBFF-{alnum:30}
vercel token       | vcp_{alnum:56}  vck_{alnum:56}
voiceflow key      | VF.DM.{hex:24}.{alnum:16}
volcengine key     | AKLT{alnum:44}
voyage key         | pa-{word:43}
wandb key          | wandb_v1_{word:77}
xai key            | xai-{alnum:80}
yandex key         | AQVN{alnum:36}
yandex token       | t1.{word:60}.{word:86}
zoho token         | 1000.{hex:32}.{hex:32}
discord token      | M{alnum:23}.{alnum:6}.{alnum:38}
"""
"""How the keys of each vendor look, from what the vendors say of them."""

SHAPED: dict[str, list[str]] = {
    "jwt": [_jwt(), _jwe("RSA-OAEP"), _jwe("dir")],
    "private key": [
        _pem(kind) for kind in ("PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK")
    ],
}
"""Known by their shape, wherever they stand."""
for _line in _VENDORS_KEYS.strip().splitlines():
    _kind, _, _templates = _line.partition(" | ")
    SHAPED.setdefault(_kind.strip(), []).extend(map(_made, _templates.split()))

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
        for at, secret in enumerate(secrets, len(found) // 2):
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
    for line in (
        "PGPASSWORD={} psql -h db -U bob",
        "docker run -e MYSQL_ROOT_PASSWORD={} mysql",
        "docker login -u bob -p {} registry.x.org",
        "az login --service-principal -u x -p {}",
        "helm registry login x.org -u bob -p '{}'",
        "sshpass -p {} ssh bob@x.org",
        "sshpass -p'{}' ssh bob@x.org",
        "mysql -u root -p{} shop",
        "mysqldump -uroot -p'{}' shop",
        "mongosh db -u bob -p {}",
        "redis-cli -h db -a {} ping",
        "ldapsearch -D cn=bob -w {} -b dc=x",
        "sqlcmd -S db -U sa -P {}",
        "unzip -P {} a.zip",
        "7z x -p{} a.7z",
        "openssl rsa -in k.pem -passin pass:{}",
        "keytool -list -keystore k.jks -storepass {}",
        "smbclient //x/y -U 'bob%{}'",
        "plink -pw {} bob@x.org",
        "curl --user bob:{} https://x.org",
        "curl --proxy-user bob:{} https://x.org",
        "psql 'host=db user=bob password={}'",
        '<input type="password" name="pw" value="{}">',
        "<input value='{}' type='password'>",
        '<input type="hidden" name="csrf_token" value="{}"/>',
        '<meta name="csrf-token" content="{}">',
        '<add key="ApiKey" value="{}" />',
        "<password>{}</password>",
        '<string name="api_key">{}</string>',
        "password:\n  {}\nuser: bob",
        "db:\n  api_key: >-\n    {}\n  port: 1",
        '"api_key":\n    "{}"',
        "密码：{}",
        "数据库密码：{}，请保密。",
        "密码是{}。",
        "API密钥: {}",
        "API Key：{}",
        "password：{}",
        "令牌：{}",
        'Authorization: Digest username="bob", realm="x", nonce="1", response="{}", opaque="2"\r\nAccept: */*',
        'curl -H \'Authorization: Digest username="bob", response="{}"\' x.org',
        'Authorization: OAuth oauth_consumer_key="x", oauth_token="{}", oauth_version="1.0"',
        "Authorization: AWS4-HMAC-SHA256 Credential=x/2024, SignedHeaders=host, Signature={}",
        "\x1b[1mpassword\x1b[0m: \x1b[32m{}\x1b[0m",
        "\x1b[32mAPI_KEY={}\x1b[0m",
        "{{\\u0022api_key\\u0022:\\u0022{}\\u0022}}",
        "{{&quot;password&quot;:&quot;{}&quot;}}",
        "q=1&next=%2Fcb%3Fapi_key%3D{}%26x%3D1",
        "myapikey={}",
        "GOOGLEAPIKEY={}",
        'finnhub_key = "{}"',
        "SERPER_KEY={}",
    ):
        secret = rnd(20)
        found.append(Planted(f"text {line!r}", secret, line.format(secret)))
    for name in ("Name", "name", "Key", "Header", "FIELD"):
        for label in ("Value", "value", "VAL"):
            secret = rnd(16)
            found.append(Planted(f"{name}/{label}", secret, {"Headers": [{name: "Authorization", label: secret}]}))
    for outer in ("credentials", "api_key", "api_keys", "auth_token", "client_secret"):
        for inner in ("value", "prod", "password", "openai", "token", "key"):
            secret = rnd(16)
            found.append(Planted(f"{inner} in {outer}", secret, {outer: {inner: secret, "user": "bob"}}))
            secret = rnd(16)
            found.append(Planted(f"{inner} deep in {outer}", secret, {outer: [{"a": {inner: [secret]}}]}))
    word = rnd(9, string.ascii_lowercase)
    found.append(Planted("a word as password in credentials", word, {"credentials": {"password": word}}))
    for command in (
        ["docker", "login", "-u", "bob", "-p", "{}", "x.org"],
        ["sshpass", "-p", "{}", "ssh", "x.org"],
        ["redis-cli", "-a", "{}"],
        ["psql", "--password", "{}"],
    ):
        secret = rnd(12)
        found.append(Planted(f"command {command}", secret, [part.format(secret) for part in command]))
    for kind in ("github token", "openai key", "anthropic key", "google key", "slack token", "aws key", "npm token"):
        for around in (
            "x{}",
            "key{}",
            "\x1b[31m{}\x1b[0m",
            "\\u003d{}\\u0026",
            "\\n{}\\n",
            "%3D{}%26",
            "%20{}",
            "\\t{}",
        ):
            secret = SHAPED[kind][0]
            found.append(Planted(f"{kind} in {around!r}", secret, around.format(secret)))
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
    for field in ("content", "tool_calls"):
        for secret, text in (("ghp_" + rnd(36), '{{"query": "{}"}}'), (rnd(34), '{{"api_key": "{}"}}')):
            before, _, after = text.format("|").partition("|")
            pieces = _cut(secret, 5)
            deltas = [
                {field: [{"index": 0, "function": {"arguments": piece}}] if field == "tool_calls" else piece}
                for piece in (before, *pieces, after)
            ]
            chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
            found.append(Planted(f"{field} in chunks, {text}", secret, {"items": chunks}, pieces))
    secret = "ghp_" + rnd(36)
    pieces = _cut(secret, 5)
    events = [
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": piece}}
        for piece in ('{"command": "echo ', *pieces, '"}')
    ]
    found.append(Planted("events of Anthropic", secret, {"items": events}, pieces))
    events = [{"type": "response.function_call_arguments.delta", "delta": piece} for piece in ('{"q":"', *pieces, '"}')]
    found.append(Planted("events of Responses", secret, events, pieces))
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
    # tool calls and requests
    "fc_" + rnd(48, HEX),
    "fc-" + rnd(32, HEX),
    "req_" + rnd(24),
    "api-" + "550e8400-e29b-41d4-a716-446655440000",
    "web_" + rnd(32, HEX),
    "task-" + rnd(40, HEX),
    "disk-" + rnd(24, HEX),
    "rs_" + rnd(48, HEX),
    "cus_" + rnd(14),
    "pk_live_" + rnd(24),
    "AC" + rnd(32, HEX),
    "batch_" + rnd(24),
    "00-" + rnd(32, HEX) + "-" + rnd(16, HEX) + "-01",
    "httpx/_client.py,sha256=r8_DrqAfn6QLwQnmXEggveiSU-UaIL2p2nuPINelfFc,14949",
    "integrity=sha512-" + rnd(86, ALNUM + "+/") + "==",
    "gAAAAAB" + rnd(400, ALNUM + "-_"),
    "EAAAAPAIAAAwBwRkZUTYwDlUAAADFoAAAAHEdERUYAqADnAAAo8AAAACRHUE9ThhmITwAAKfgAA",
    # commands and markup
    "docker run -p 8080:80 -p 127.0.0.1:1:2 web",
    "docker run -p localhost:8080:80 web",
    "mysql -u root -p shop1",
    "ssh -p 2222 bob@x.org",
    "mkdir -p a/b1/c2",
    "cp -a x1 y2; grep -w foo1 bar",
    "python -u train.py:main",
    "tar -P x1; zip -r a1.zip b",
    "docker login -u bob -p $PASSWORD x.org",
    "docker login --password-stdin",
    "login page -p is for the port",
    "nmap -p 22,80 x.org",
    "x -passed 1",
    '<input type="text" name="city" value="Paris12">',
    '<input type="password" name="pw" value="">',
    '<input type="password" name="pw" placeholder="Password1">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    "<token>the</token>",
    "<secret>crane</secret>",
    "socks5h://<username>:<password>@proxy-host",
    "<think>The password: is it short?</think>",
    "password:\n  type: string\n  minLength: 8",
    "api_key:\n  description: The key.",
    "token:\n  - the\n  - cat",
    "secrets:\n  inherit",
    "if bad_cookie:\n    continue1",
    "class Cookie:\n    version1",
    '"deleteauthorization": {\n  "Resources": []',
    "密码错误",
    "请输入密码：",
    "密码：必须至少八个字符",
    "忘记密码是怎么回事",
    "令牌：the",
    "关键：坚持",
    "答案：42",
    "100%3D",
    "a%20b%2Fc",
    "&quot;token&quot;: &quot;the&quot;",
    "\x1b[31mtoken\x1b[0m: the",
    "\\u003ctoken\\u003e",
    "print('%3d tokens' % n)",
    "arn:aws:sns:us-east-1:123456789012:MySNSTopicForNotificationRules1",
    "sort_key = 'layer1.weight2'",
    "cache_key: user:123:ab45cd67ef",
    "fortunecookie: You will travel.",
    'NOPASSWORD = "no-password-required"',
    "linear_key = nn.Linear(dim, dim)",
    "square_key: e4",
    "he.s. aVeryLongWordWithoutAnySense",
    "s.someMethodOfTheObjectAt1",
    "package.json.lock.versions.of.the.whole.tree",
    # structures
    {"credentials": {"type": "service_account", "region": "eu", "user": "bob"}},
    {"credentials": {"issued": "2024-01-01T00:00:00Z", "scheme": "basic"}},
    {"credentials": {}},
    {"api_key": {"type": "apiKey", "in": "header", "name": "X-API-Key"}},
    {"api_key": {"type": "string", "description": "The key to use.", "default": None, "minLength": 20}},
    {"Name": "city", "Value": "Paris"},
    {"Key": "Team", "Value": "payments-42-eu"},
    {"Name": "Authorization", "Value": ""},
    ["docker", "run", "-p", "8080:80", "x"],
    ["ssh", "-p", "2222", "x.org"],
    ["mkdir", "-p", "a1/b2"],
    ["grep", "-w", "token1"],
    {"linear_key": "blocks.1.attn.k"},
    {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": '{"city": "Par'}}]}}]},
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
