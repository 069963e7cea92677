"""Two stores in one viewer: experiments of both, one compared with the other."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.processes import viewing


def test_experiments_of_two_stores_are_laid_over_each_other_and_a_sample_is_compared(
    demo_store: Path, tmp_path: Path, page: Page
) -> None:
    other = Path(shutil.copytree(demo_store, tmp_path / "copy"))
    with viewing(demo_store, str(other)) as address:
        page.goto(address)
        ours = page.get_by_role("checkbox", name=f"{demo_store.name} / maths / grpo-7b")
        theirs = page.get_by_role("checkbox", name="copy / maths / grpo-7b")
        ours.check()
        theirs.check()
        expect(page.locator(".overlay-chart canvas")).to_be_visible()
        expect(page.locator(".overlay-chart")).to_contain_text("copy: grpo-7b")
        page.get_by_role("row").filter(has_text="copy").get_by_role("link", name=re.compile("grpo-7b")).click()
        page.wait_for_url("**/s/copy/e/maths/grpo-7b")
        expect(page.locator(".charts canvas").first).to_be_visible()
        expect(page.get_by_role("navigation", name="Breadcrumb")).to_contain_text("copy")
        page.goto(f"{address}/s/copy/e/maths/grpo-7b/step/3/sample/0")
        page.locator(".list-row a").first.click()
        page.wait_for_url("**/s/copy/t/**")
        page.get_by_role("link", name=re.compile(f"Compare with {demo_store.name}: grpo-7b")).click()
        page.wait_for_url("**/s/copy/compare?ids=**")
        heads = page.locator(".compare-head")
        expect(heads).to_have_count(2)
        expect(heads.nth(1)).to_contain_text(f"{demo_store.name}: ")
        heads.nth(1).get_by_role("link").click()
        page.wait_for_url(f"**/s/{demo_store.name}/t/**")
        expect(page.locator(".message").first).to_be_visible()
