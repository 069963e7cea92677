"""Secrets are taken out wherever they stand, by name and by shape; everything else stays as it was."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolltrace.drain import Redactor, secret_texts
from rolltrace.drain.secret_names import Strength, strength
from rolltrace.drain.secret_shapes import KINDS, looks_random
from rolltrace.drain.secret_texts import find_secrets
from rolltrace.errors import ConfigError
from rolltrace.record import ArraySummary, Cut, Opaque
from rolltrace.record.tables import SPANS, TABLES
from tests.drain.secrets_corpus import HARMLESS, PLANTED, SHAPED, Planted, rnd
from tests.nightly import nightly

KEY = "sk-" + "a1" * 20
MARK = "[redacted: openai key, 43 chars]"


def spelt(value: Any) -> str:
    """All text in a value."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, dict):
        return "\n".join(f"{spelt(key)}\n{spelt(item)}" for key, item in value.items())
    return "\n".join(map(spelt, value)) if isinstance(value, list | tuple) else str(value)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.label)
def test_a_secret_is_taken_out_and_leaves_a_mark(planted: Planted) -> None:
    assert all(trace in spelt(planted.value) for trace in planted.traces)
    clean = Redactor().value(planted.value)
    assert not any(trace in spelt(clean) for trace in planted.traces)
    assert "[redacted: " in spelt(clean)
    assert Redactor().value(clean) == clean


@pytest.mark.parametrize("value", HARMLESS, ids=lambda value: repr(value)[:60])
def test_what_is_no_secret_stays_byte_for_byte(value: Any) -> None:
    redactor = Redactor()
    assert redactor.value(value) == value
    assert redactor.value({"messages": [{"content": value}]}) == {"messages": [{"content": value}]}
    assert redactor.count == 0


@pytest.mark.parametrize(
    ("kind", "secret"),
    [(kind, secret) for kind, secrets in SHAPED.items() for secret in secrets],
    ids=lambda each: each[:20],
)
def test_the_mark_tells_kind_and_length_and_the_text_around_it_stays(kind: str, secret: str) -> None:
    assert Redactor().text(f"before {secret} after") == f"before [redacted: {kind}, {len(secret)} chars] after"


def test_each_kind_of_key_is_in_the_corpus_and_in_the_docs() -> None:
    """What the table of shapes holds is tried, and promised; and nothing else is."""
    page = (Path(__file__).parents[2] / "docs/howto/secrets.md").read_text()
    promised = re.search(r"\n(1password key.*?)\n\n", page, re.DOTALL)
    assert promised is not None
    assert sorted(KINDS) == promised[1].replace("\n", " ").removesuffix(".").split(", ")
    assert SHAPED.keys() >= KINDS


def test_an_argument_list_is_read_as_the_command_it_is() -> None:
    assert Redactor().value(["docker", "login", "-u", "bob", "-p", "swordfish", "x.org"]) == [
        "docker", "login", "-u", "bob", "-p", "[redacted: password, 9 chars]", "x.org",
    ]  # fmt: skip


def test_escapes_around_a_secret_stay() -> None:
    assert Redactor().text(f"\x1b[31m{KEY}\x1b[0m ok") == f"\x1b[31m{MARK}\x1b[0m ok"
    assert Redactor().text(f"a\\u0022{KEY}\\u0022") == f"a\\u0022{MARK}\\u0022"
    assert Redactor().text("x\npassword\x1b[0m: hunter2a\x1b[0m\ny") == (
        "x\npassword\x1b[0m: [redacted: password, 8 chars]\x1b[0m\ny"
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("api_key", Strength.STRONG), ("accessToken", Strength.STRONG), ("AWS_SECRET_ACCESS_KEY", Strength.STRONG),
        ("DB_PASSWORD", Strength.STRONG), ("APIKey", Strength.STRONG), ("password", Strength.PASSWORD),
        ("token", Strength.WEAK), ("secret", Strength.WEAK), ("keyboard", Strength.NONE), ("max_tokens", Strength.NONE),
        ("next_page_token", Strength.NONE), ("eos_token", Strength.NONE), ("secret_word", Strength.NONE),
        ("token_type", Strength.NONE), ("author", Strength.NONE), ("public_access_key", Strength.NONE),
        ("", Strength.NONE), ("key", Strength.NONE), ("monkey", Strength.NONE), ("-", Strength.NONE),
        ("PGPASSWORD", Strength.STRONG), ("myapikey", Strength.STRONG), ("数据库密码", Strength.STRONG),
        ("finnhub_key", Strength.WEAK), ("linear_key", Strength.NONE), ("cache_key", Strength.NONE),
        ("fortunecookie", Strength.NONE), ("compass", Strength.NONE),
    ],
)  # fmt: skip
def test_the_last_words_of_a_name_decide(name: str, expected: Strength) -> None:
    assert strength(name) is expected


def test_random_keys_are_told_from_names_made_of_words() -> None:
    random_ones = [rnd(size) for size in (24, 32, 40, 64) for _ in range(200)]
    assert sum(not looks_random(each) for each in random_ones) <= 2
    assert not any(map(looks_random, ("learn-compatible-estimators", "CamelCaseNamesAreWords", "run-20240101-final")))


def test_a_value_of_a_secret_name_is_marked_with_that_name() -> None:
    redactor = Redactor()
    assert redactor.value({"headers": {"X-Api-Key": "anything", "n": 1}}) == {
        "headers": {"X-Api-Key": "[redacted: X-Api-Key, 8 chars]", "n": 1}
    }
    assert redactor.count == 1


def test_a_secret_over_pieces_is_marked_where_it_began() -> None:
    assert Redactor().value(["use ", KEY[:9], KEY[9:30], f"{KEY[30:]} now"]) == ["use ", MARK, "", " now"]
    chunks = [{"choices": [{"delta": {"content": piece}}]} for piece in ("a sk", KEY[2:20], KEY[20:], ".")]
    clean = Redactor().value(chunks)
    assert [chunk["choices"][0]["delta"]["content"] for chunk in clean] == [f"a {MARK}", "", "", "."]
    assert chunks[1]["choices"][0]["delta"]["content"] == KEY[2:20]


def test_two_keys_that_become_the_same_are_both_kept() -> None:
    clean = Redactor().value({KEY: 1, KEY[::-1].replace("-ks", "") + "x": 2, "sk-" + "b2" * 20: 3})
    assert sorted(clean.values()) == [1, 2, 3]
    assert KEY not in spelt(clean)


def test_secrets_inside_markers_are_taken_out() -> None:
    values = [
        Cut("bytes", 9, f"x {KEY} y"),
        Opaque(f"T{'.'}{KEY}", {"a": f"{KEY} ", KEY: 1}, f"because of {KEY}"),
        ArraySummary(KEY, "<f4", (2, 3), "cpu", None),
    ]
    clean = Redactor().value(values)
    assert KEY not in str(clean)
    assert clean[2].shape == (2, 3)


def test_what_is_nested_too_deep_for_json_is_cut_and_not_passed_over() -> None:
    value: Any = KEY
    for _ in range(400):
        value = [value]
    assert KEY not in str(Redactor().value(value))


def test_every_text_column_of_every_table_is_searched() -> None:
    for table in TABLES:
        texts = [column.name for column in table.columns if column.type in ("text", "long text", "json")]
        clean = Redactor().row(table, dict.fromkeys(texts, f"x {KEY}"))
        left = {name for name in texts if KEY in clean[name]}
        assert left <= {"trajectory_id", "parent_trajectory_id", "tokenizer"}


def test_the_text_of_tokens_stays_as_it_was_cleaned() -> None:
    fields = {"text": f"x {KEY}", "piece_chars": [1] * 45}
    assert Redactor().row(SPANS, fields) == fields


def test_the_rules_can_be_set() -> None:
    redactor = Redactor(keys=["badge"], shapes={"badge number": r"B-\d{4}"}, usual=False)
    assert redactor.value({"badge": "x", "text": f"B-1234 {KEY}", "password": "kept99"}) == {
        "badge": "[redacted: badge, 1 chars]",
        "text": f"[redacted: badge number, 6 chars] {KEY}",
        "password": "kept99",
    }


def test_a_store_can_have_rules_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "redact.json").write_text('{"keys": ["badge"], "shapes": {"badge number": "B-[0-9]{4}"}}')
    clean = Redactor.of(tmp_path).value({"badge": "x", "password": "hunter2", "text": "B-1234", "n": [1]})
    assert clean == {
        "badge": "[redacted: badge, 1 chars]",
        "password": "[redacted: password, 7 chars]",
        "text": "[redacted: badge number, 6 chars]",
        "n": [1],
    }


def test_the_rules_of_a_store_can_replace_the_usual_ones(tmp_path: Path) -> None:
    (tmp_path / "redact.json").write_text('{"keys": ["badge"], "replace": true}')
    assert Redactor.of(tmp_path).value({"password": "hunter2", "badge": "x", "text": KEY}) == {
        "password": "hunter2",
        "badge": "[redacted: badge, 1 chars]",
        "text": KEY,
    }


def test_what_a_store_allows_is_kept(tmp_path: Path) -> None:
    (tmp_path / "redact.json").write_text(f'{{"allow": ["{KEY}", "api-key", "hunter2"]}}')
    kept = {"text": f"x {KEY}", "api_key": "anything", "password": "hunter2", "line": "DB_PASSWORD=hunter2"}
    assert Redactor.of(tmp_path).value(kept) == kept
    assert "[redacted: " in spelt(Redactor.of(tmp_path).value({"auth_token": "anything"}))


@pytest.mark.parametrize("text", ["nonsense", '{"shapes": {"a": "("}}', '{"kyes": []}'])
def test_rules_that_cannot_be_used_are_a_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "redact.json").write_text(text)
    with pytest.raises(ConfigError, match=r"redact\.json cannot be used"):
        Redactor.of(tmp_path)


SIZE = nightly(1_000_000, 60_000)
ADVERSARIAL = [
    "-eyJ",
    "eyJ.",
    "eyJa.eyJ",
    "sk-",
    "sk-a1",
    "-sk-" + "aB3" * 8,
    "AKIA",
    "_hf_",
    "://",
    "://a:b",
    "://a:b/c@",
    "a@",
    "--password ",
    "--api-key=",
    "password=",
    'password="',
    'api_key\\":\\"',
    "api_key: ",
    "Authorization: Bearer ",
    "Bearer " + "a" * 16 + " ",
    "Basic aaaa",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nabc",
    "-----END ",
    "login x password ",
    "curl -u a:",
    "curl ",
    "login ",
    "SG.",
    "ya29.",
    "M" * 24 + ".",
    "key key ",
    "token=",
    "token = ",
    "=",
    ":",
    "\\",
    '"',
    "'",
    "x-api-key",
    "hooks.slack.com/services/",
    "123456789:",
    "[redacted: ",
    "a",
    "-",
    "_",
    "密码",
    "\\n",
    "%3D",
    "user=x password=",
    "\x1b[31m",
    "\\u0022",
    "\\u0022password\\u0022:",
    "%3D%25",
    "&quot;",
    " -p",
    " -p x",
    "mysql -p",
    "login -p ",
    "curl -u",
    "<input ",
    "<a value=",
    '<input type="password" value=',
    "<password>",
    "密码：",
    "密码是a1",
    "Authorization: Digest a=b, ",
    'a="b", ',
    "eyJa.",
    "dp.pt.",
    "0Q~",
    "atlasv1.",
    "a1+",
    "a1" * 9 + "/",
    "ghp_" + "aB3" * 12,
    "xghp_",
    "_secret_",
    "a_secret_",
    "aNRMA-NRMA",
    "https://discord.com/api/webhooks/",
]


@pytest.mark.timeout(60)  # a pattern that goes back takes hours for this, not seconds
@pytest.mark.parametrize("repeated", ADVERSARIAL)
def test_no_text_takes_more_than_time_in_proportion_to_its_length(repeated: str) -> None:
    find_secrets(repeated * (SIZE // len(repeated)))
    find_secrets((repeated + "\n") * (SIZE // 8 // len(repeated)) + "x")


@settings(max_examples=nightly(2000, 100), deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["password", "api_key", "token", "login", " ", "=", ":", "-", "--", "-p ", "@", "://", "%3D", "&quot;",
             "\\u003d", "\x1b[0m", ">", "hunter2!", "a8Jd72Kq0ZxP4mN6", "PRIVATE KEY", "\n", "，", "密码",
             "machine x", '"']
        ),
        max_size=12,
    ).map("".join)
)  # fmt: skip
def test_a_text_that_is_taken_for_harmless_has_no_secret(text: str) -> None:
    if secret_texts._is_harmless(text):
        assert not secret_texts._plain_secrets(text)
        assert not secret_texts._may_have_escapes(text)
