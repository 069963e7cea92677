"""Keys of known vendors: how each begins, which characters follow, and how many.

The table holds facts about formats, as vendors document them and as the rules of gitleaks, trufflehog and secretlint
list them. A key is found by its beginning, in one scan for all of them, and only around words of 16 characters or more
(`secret_texts`). What follows is one bounded class of characters, so a match never goes back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_ALPHABETS = {
    "hex": "[0-9a-f]",
    "Hex": "[0-9a-fA-F]",
    "upper": "[A-Z0-9]",
    "upper-": "[A-Z0-9-]",
    "lower": "[a-z0-9]",
    "alnum": "[A-Za-z0-9]",
    "word": "[A-Za-z0-9_-]",
    "base64": "[A-Za-z0-9+/=_-]",
    "dotted": "[A-Za-z0-9_.=~!-]",
    "any": "[A-Za-z0-9_.=~!+/-]",
}
_TABLE = """
# kind             | beginnings                                   | characters    | notes
# certain: what follows need not look random. So it is with 26 letters and digits or more behind a `_` or `-`.
# apart:   no letter or digit may stand right before it, unless it is long and mixed, or has no `-` and is certain
# digit:   there must be one
# back N:  up to N characters before belong to it
1password key      | A3-                                          | upper- 32-40  | apart
1password token    | ops_eyJ                                      | base64 100-2000
adafruit key       | aio_                                         | alnum 28      | apart
adobe secret       | p8e-                                         | alnum 32      | apart
age key            | AGE-SECRET-KEY-1                             | upper 50-64
airtable token     | pat                                          | dotted 79     | apart
alibaba key        | LTAI                                         | alnum 20      | certain apart
alibaba key        | LTAI                                         | alnum 12-19   | apart
anthropic key      | sk-ant-                                      | word 20-250   | certain
apify key          | apify_api_                                   | word 30-48
artifactory key    | AKCp                                         | alnum 60-80   | apart
artifactory token  | cmVmdGtu                                     | alnum 50-64
artifactory token  | cmVmd                                        | alnum 59
atlassian token    | ATATT ATCTT ATBB ATSTT                       | base64 28-400
authress key       | sc_ ext_ scauth_ authress_                   | any 60-240    | apart
aws bedrock key    | ABSK                                         | base64 100-280
aws bedrock key    | bedrock-api-key-                             | base64 20-2000
aws key            | AKIA                                         | upper 16      | certain apart
aws key            | ABIA ACCA ASIA                               | upper 16      | certain apart digit
azure secret       | Q~                                           | dotted 31-34  | back 4
bannerbear key     | bb_pr_ bb_ma_                                | hex 30
bitbucket token    | BBDC-                                        | base64 30-50
buildkite token    | bkua_                                        | alnum 40
cerebras key       | csk-                                         | alnum 40-128
circleci token     | CCIPAT_ CCIPRJ_                              | word 40-80
clickhouse secret  | 4b1d                                         | alnum 38      | apart
clojars token      | CLOJARS_                                     | alnum 60
cloudflare token   | v1.0-                                        | word 150-190
cloudflare token   | cfut_ cfat_ cfk_                             | alnum 40-56
contentful token   | CFPAT-                                       | word 43
databricks token   | dapi dkea dose                               | Hex 32        | certain apart
definednet key     | dnkey-                                       | base64 70-90
deno token         | ddp_ ddw_                                    | alnum 36      | apart
digitalocean token | dop_v1_ doo_v1_ dor_v1_                      | hex 64
docker token       | dckr_pat_ dckr_oat_                          | word 24-40    | certain
doppler token      | dp.pt. dp.ct. dp.st. dp.sa. dp.scim. dp.audit. | dotted 40-82
dropbox token      | sl.                                          | word 60-1500
duffel token       | duffel_test_ duffel_live_                    | base64 40-48
dynatrace token    | dt0c01. dt0s01. dt0s02. dt0s06.              | dotted 60-100
e2b key            | e2b_                                         | hex 40
easypost key       | EZAK EZTK                                    | alnum 54      | apart
elevenlabs key     | sk_                                          | hex 40-64     | apart
endor token        | endr+                                        | word 16
facebook token     | EAAB EAAC EAAD EAAG EAAJ EAAM                | alnum 100-400 | apart
figma token        | figd_ figp_ figo_                            | base64 38-60
fireworks key      | fw_                                          | alnum 20-64   | apart
fleetbase key      | flb_live_                                    | alnum 20
flexport token     | shltm_                                       | word 40
flutterwave key    | FLWSECK- FLWSECK_TEST-                       | word 12-40    | certain
flyio token        | fo1_ fm1r_ fm1a_ fm2_                        | base64 40-2000
frameio token      | fio-u-                                       | base64 60-68
github token       | ghp_ gho_ ghu_ ghs_ ghr_                     | alnum 30-255  | certain
github token       | github_pat_                                  | word 22-255   | certain
github token       | ghp_ gho_ ghu_ ghs_ ghr_                     | word 30-255
gitlab cookie      | _gitlab_session=                             | lower 32
gitlab token       | glpat- gldt- glrt- glsoat- glft- glimt-      | dotted 20-320 | certain
gitlab token       | glagent- gloas- glffct- glptt- glcbt- glwt-  | dotted 20-320 | certain
gitlab token       | GR1348941                                    | word 20-40    | certain
gocardless token   | live_                                        | base64 40     | apart
google key         | AIza                                         | word 35       | certain
google key         | AQ.                                          | word 30-120
google secret      | GOCSPX-                                      | word 20-64
google token       | ya29.                                        | word 20-2000  | certain
google token       | 1//0                                         | word 39-200
grafana key        | eyJrIjoi                                     | base64 60-400
grafana token      | glsa_                                        | word 32-64    | certain
grafana token      | glc_                                         | base64 32-400
groq key           | gsk_                                         | alnum 40-128
harness key        | pat. sat.                                    | dotted 60-80  | apart
hashicorp token    | hvs. hvb. hvr.                               | word 24-320
heroku key         | HRKU-AA                                      | word 50-64
hubspot token      | pat-na1- pat-eu1- pat-na2- pat-ap1-          | word 36
huggingface token  | hf_                                          | alnum 30-64   | apart
huggingface token  | api_org_                                     | alnum 30-64   | certain
infracost token    | ico-                                         | alnum 32      | apart
intra42 secret     | s-s4t2ud- s-s4t2af- u-s4t2ud- u-s4t2af-      | hex 64
jina key           | jina_                                        | word 40-80
klaviyo key        | pk_                                          | hex 34        | apart
langfuse key       | sk-lf- pk-lf-                                | word 30-64
langsmith key      | lsv2_pt_ lsv2_sk_                            | word 32-64
launchdarkly key   | sdk-                                         | word 36       | apart
linear key         | lin_api_ lin_oauth_                          | alnum 32-64
lob key            | live_ test_                                  | hex 35        | apart
locationiq token   | pk.                                          | alnum 32      | apart
mailgun key        | key-                                         | lower 32      | apart
mapbox token       | sk. pk.eyJ                                   | dotted 80-240 | apart
moonshot key       | sk-kimi-                                     | word 30-128
neon token         | napi_                                        | alnum 60-72
netlify token      | nfp_ nfc_ nfo_ nfu_                          | alnum 36-48
newrelic key       | NRAK- NRII- NRIQ- NRBR- NRJS- NRRA-          | word 19-42    | certain
newrelic key       | -NRMA FFFFNRAL                               | alnum 0       | certain back 42
nightfall key      | NF-                                          | alnum 32      | apart
notion token       | ntn_ secret_                                 | alnum 40-64   | apart
npm token          | npm_                                         | alnum 36-64
nvidia key         | nvapi-                                       | word 40-128
octopus key        | API-                                         | upper 26      | apart
openai key         | sk-proj- sk-svcacct- sk-service- sk-admin-   | word 20-250
openai key         | sk-                                          | word 20-250   | apart
openrouter key     | sk-or-                                       | word 20-250
openshift token    | sha256~                                      | word 43
pagarme key        | ak_live_                                     | alnum 30
perplexity key     | pplx-                                        | alnum 40-128
pinecone key       | pcsk_                                        | word 30-128
plaid token        | access-sandbox- access-development- access-production- | word 36
planetscale token  | pscale_tkn_ pscale_oauth_ pscale_pw_         | dotted 32-64
posthog key        | phx_ phc_ phs_                               | word 40-50    | apart
postman key        | PMAK- PMAT-                                  | word 26-64
prefect key        | pnu_ pnb_                                    | alnum 36
pubnub key         | sub-c- sec-c-                                | word 32-64
pulumi token       | pul-                                         | lower 40
pypi token         | pypi-                                        | word 32-1000
ramp secret        | ramp_sec_                                    | alnum 40-48
razorpay key       | rzp_live_ rzp_test_                          | alnum 14-20
readme token       | rdme_                                        | lower 70
replicate token    | r8_                                          | word 37       | apart
robinhood key      | rh-api-                                      | word 36
rootly token       | rootly_                                      | hex 64
rubygems key       | rubygems_                                    | alnum 48
salad key          | salad_cloud_                                 | word 16-240
salesforce secret  | 3MVG9                                        | any 80-251
salesforce token   | 5AEP861                                      | dotted 80-400
scalingo token     | tk-us-                                       | word 48
sendgrid key       | SG.                                          | dotted 40-80
sendinblue key     | xkeysib- xsmtpsib-                           | word 64-90
sentry token       | sntrys_eyJ                                   | base64 80-600
sentry token       | sntryu_                                      | hex 64
settlemint token   | sm_aat_ sm_pat_ sm_sat_                      | alnum 16
shippo token       | shippo_live_ shippo_test_                    | Hex 40
shopify token      | shpat_ shpca_ shppa_ shpss_ shptka_          | alnum 32
slack token        | xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xoxc- xoxd- | base64 10-250 | certain
slack token        | xapp-                                        | word 12-250   | certain
sonarcloud token   | sqco_                                        | alnum 59
sonarqube token    | squ_ sqp_ sqa_                               | hex 40        | apart
sourcegraph token  | sgp_                                         | word 40-64    | apart
sourcegraph token  | slk_                                         | hex 64        | apart
square token       | sq0a sq0c sq0i                               | word 25-60    | apart
stripe key         | sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ | word 16-250
stripe key         | sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ | alnum 10-250  | certain
stripe key         | whsec_                                       | base64 24-100
stripe secret      | _secret_                                     | alnum 24-40   | back 32
supabase key       | sbp_                                         | lower 40      | apart
supabase key       | sb_secret_                                   | word 31-64    | apart
tailscale key      | tskey-                                       | word 12-100   | certain
tavily key         | tvly-                                        | word 20-64
terraform token    | atlasv1.                                     | base64 50-80  | back 15
together key       | tgp_v1_                                      | word 20-128
twilio key         | SK                                           | Hex 32        | apart
typeform token     | tfp_                                         | dotted 40-64  | apart
ubidots token      | BBFF-                                        | alnum 30
vercel token       | vcp_ vci_ vca_ vcr_ vck_                     | word 24-60    | apart
voiceflow key      | VF.                                          | dotted 40-48  | apart
volcengine key     | AKLT AKTP                                    | base64 40-64
voyage key         | pa-                                          | word 40-48    | apart
wandb key          | wandb_v1_                                    | word 40-128
xai key            | xai-                                         | word 40-128
yandex key         | AQVN                                         | word 35-38    | apart
yandex token       | t1.                                          | dotted 90-400 | apart
zoho token         | 1000.                                        | dotted 65     | apart
"""


class Shape(NamedTuple):
    """How the keys of one kind look."""

    kind: str
    beginning: str
    body: re.Pattern[str]
    certain: bool
    apart: bool
    back: int


_SOLID = frozenset({"hex", "Hex", "upper", "lower", "alnum"})
_MIN_SOLID = 26


def _read_table() -> dict[str, list[Shape]]:
    shapes: dict[str, list[Shape]] = {}
    for line in _TABLE.splitlines():
        if not line or line.startswith("#"):
            continue
        kind, beginnings, characters, notes = [*map(str.strip, line.split("|")), ""][:4]
        alphabet, _, lengths = characters.partition(" ")
        fewest, _, most = lengths.partition("-")
        start = "(?=[A-Z]{0,15}[0-9])" if "digit" in notes else ""
        end = "(?![A-Za-z0-9])" if "apart" in notes and not most else ""
        body = re.compile(f"{start}{_ALPHABETS[alphabet]}{{{fewest},{most or fewest}}}{end}")
        back = int(notes.rpartition("back ")[2]) if "back" in notes else 0
        for beginning in beginnings.split():
            is_solid = alphabet in _SOLID and int(fewest) >= _MIN_SOLID and not beginning.isalnum()
            apart = "apart" in notes or (beginning.isalnum() and not back)
            shape = Shape(kind, beginning, body, is_solid or "certain" in notes, apart, back)
            shapes.setdefault(beginning, []).append(shape)
    return shapes


def match_longest(words: Iterable[str]) -> str:
    """A pattern for the longest of these words, in which each character is looked at once."""
    tails: dict[str, list[str]] = {}
    for word in words:
        tails.setdefault(word[:1], []).append(word[1:])
    optional = "?" if tails.pop("", None) else ""
    branches = [re.escape(first) + match_longest(rest) for first, rest in tails.items()]
    return (
        branches[0] if len(branches) == 1 and not optional else f"(?:{'|'.join(branches)}){optional}" * bool(branches)
    )


_SHAPES = _read_table()
_SHAPES_AT = {
    longest: [
        shape
        for beginning in sorted(_SHAPES, key=len, reverse=True)
        if longest.startswith(beginning)
        for shape in _SHAPES[beginning]
    ]
    for longest in _SHAPES
}
"""For the longest beginning that fits at a place: all that fit there, the longest first."""
_BEGINNING = match_longest(_SHAPES)
_find_beginning = re.compile(_BEGINNING).search
_MIDDLE = match_longest(name for name, shapes in _SHAPES.items() if shapes[0].back)
_find_beginning_apart = re.compile(f"(?<![A-Za-z0-9])(?:{_BEGINNING})|{_MIDDLE}").search
"""Those that other characters of the key precede may stand anywhere."""
_find_digit = re.compile("[0-9]").search
KINDS = frozenset(shape.kind for shapes in _SHAPES.values() for shape in shapes)
VENDORS = frozenset(kind.split()[0] for kind in KINDS)
_MADE_UP = re.compile(r"EXAMPLE|x{8}|X{8}|0{12}|1234567890abcdef1234567890")
_RUN = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_MIN_MIXED, _MIN_MIXED_AFTER_SHORT = 30, 44
"""Hashes in base64 are 43 characters long."""
_MIN_BLOB = 24
_IN_BLOB = re.compile(rf"[A-Za-z0-9+/_-]{{{_MIN_BLOB}}}$")
"""Of what stands before, if it looks random: there, a beginning is chance."""
_IS_HASH = re.compile("sha(?:1|224|256|384|512)[=:-]$")


class VendorKey(NamedTuple):
    """Where the key of a vendor stands, and what it is."""

    start: int
    end: int
    kind: str


def may_hold_vendor_key(text: str, start: int, end: int) -> bool:
    """Whether a word, which nearly always is a name in code, is worth a closer look."""
    if _find_beginning_apart(text, start, end) is not None:
        return True
    return _find_digit(text, start, end) is not None and _find_joined(text, start, end, start) is not None


def _find_joined(text: str, start: int, end: int, word_start: int) -> re.Match[str] | None:
    """A beginning that may be joined to what is before it: not far into a word, nor within base64."""
    if word_start and text[word_start - 1] in "+/":
        return None
    return _find_beginning(text, start, min(end, word_start + _MIN_BLOB))


def find_vendor_key(text: str, start: int, end: int, word_start: int) -> VendorKey | None:
    """Return the first key of a known shape that begins from `start` on and before `end`.

    Args:
        text: The text.
        start: From where on a key may begin.
        end: Where the word ends.
        word_start: Where the word begins, or what precedes it and belongs to it.
    """
    beginning = _find_joined(text, start, end, word_start) or _find_beginning_apart(text, start, end)
    while beginning is not None:
        at = beginning.start()
        keys = [
            (body.start() + len(body[0].rstrip(".")), shape)
            for shape in _SHAPES_AT[beginning[0]]
            if (body := shape.body.match(text, at + len(shape.beginning)))
            and _is_key(text, at, body[0], shape, word_start)
        ]
        if keys:
            key_end, shape = max(keys, key=lambda key: key[0])
            first = at
            while first > max(0, at - shape.back) and (text[first - 1].isalnum() or text[first - 1] in "._~-"):
                first -= 1
            return VendorKey(first, key_end, shape.kind)
        beginning = _find_joined(text, at + 1, end, word_start) or _find_beginning_apart(text, at + 1, end)
    return None


def _is_key(text: str, at: int, body: str, shape: Shape, word_start: int) -> bool:
    if _MADE_UP.search(body) or not (shape.certain or looks_random(body, min_runs=min(6, len(body) // 3))):
        return False
    before = text[max(0, at - _MIN_BLOB) : at] if at != word_start else ""
    is_joined = before.isascii() and before[-1:].isalnum() and not before.endswith(("\\n", "\\r", "\\t"))
    if shape.apart and is_joined:
        if shape.beginning.isalnum():
            return shape.certain and not _IN_BLOB.search(before)
        min_mixed = _MIN_MIXED if len(shape.beginning) > 3 else _MIN_MIXED_AFTER_SHORT
        if len(body) < min_mixed or not is_mixed(body):
            return False
    return shape.back > 0 or not (_IS_HASH.search(before) or (_IN_BLOB.search(before) and looks_random(before)))


def is_mixed(text: str) -> bool:
    """Whether a text has capitals, small letters and digits."""
    return any(map(str.isupper, text)) and any(map(str.islower, text)) and any(map(str.isdigit, text))


def looks_random(text: str, *, min_runs: int = 6, max_mean_run: float = 3.6) -> bool:
    """Whether letters and digits change places as often as chance would have it.

    A run is a word (also a capitalised one), capitals or digits. Random keys have runs of about two characters, names
    made of words have twice that and more: `sk-learn-compatible-estimators` is three runs.
    """
    runs = _RUN.findall(text[:64])
    return len(runs) >= min_runs and sum(map(len, runs)) <= max_mean_run * len(runs) and any(map(str.isalpha, runs))
