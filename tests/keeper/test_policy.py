"""The policy of a store is read strictly, and what makes no sense is refused with words that help."""

from __future__ import annotations

from pathlib import Path

import pytest

from rolltrace.errors import ConfigError
from rolltrace.keeper.policy import RetentionPolicy, policy_changed_ns, read_policy, write_policy


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    policy = RetentionPolicy(keep=("errors", "flagged"), share=0.25, flags=("cut",), after_steps=3, whole=True, seed=7)
    write_policy(tmp_path, policy)
    assert read_policy(tmp_path) == policy
    assert [path.name for path in tmp_path.iterdir()] == ["retention.json"]


def test_a_store_without_a_policy_has_none(tmp_path: Path) -> None:
    assert read_policy(tmp_path) is None
    assert policy_changed_ns(tmp_path) is None
    write_policy(tmp_path, RetentionPolicy())
    assert policy_changed_ns(tmp_path) is not None
    write_policy(tmp_path, None)
    assert read_policy(tmp_path) is None


def test_what_is_not_given_has_defaults(tmp_path: Path) -> None:
    (tmp_path / "retention.json").write_text('{"share": 0.1}')
    assert read_policy(tmp_path) == RetentionPolicy(share=0.1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "malformed"),
        ('{"kep": ["errors"]}', "unknown field `kep`"),
        ('{"keep": ["extreme"]}', "keep has no 'extreme'; did you mean 'extremes'?"),
        ('{"keep": ["all"]}', "keep has no 'all'; there are: errors, extremes, slowest, flagged"),
        ('{"share": 1.5}', "share must be from 0 to 1, not 1.5"),
        ('{"share": "much"}', "Expected `float`"),
        ('{"slowest_percent": 0}', "slowest_percent must be over 0, up to 100, not 0"),
        ('{"after_steps": 0}', "after_steps must be 1 or more"),
        ('{"after_steps": 1.5}', "Expected `int`"),
        ('{"keep": ["errors"], "flags": ["cut"]}', "add 'flagged' to keep"),
    ],
)
def test_a_policy_that_cannot_be_used_is_a_clear_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "retention.json").write_text(text)
    with pytest.raises(ConfigError, match=r"retention\.json cannot be used") as fault:
        read_policy(tmp_path)
    assert message in str(fault.value)


def test_a_share_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="share must be from 0 to 1, not nan"):
        write_policy(tmp_path, RetentionPolicy(share=float("nan")))
    assert not list(tmp_path.iterdir())
