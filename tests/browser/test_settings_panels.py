"""A panel shows the settings of the run, also when it is opened late, after other runs."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Timeline

pytestmark = pytest.mark.browser


def widget(page: Page, key: str):
    return page.locator(f".st-key-{key}")


def shows(page: Page, key: str, value: str | bool) -> None:
    """A widget shows a value: a switch, a number, a choice or a slider."""
    field = widget(page, key)
    control = field.locator("input, [role=slider]").first
    control.wait_for(state="attached")  # until then the place of the widget is empty
    if isinstance(value, bool):
        expect(control).to_be_checked(checked=value)
    elif control.get_attribute("type") == "number":
        expect(control).to_have_value(value)
    elif control.get_attribute("role") == "combobox":
        expect(control).to_have_value(re.compile(re.escape(value)))
    else:
        expect(field).to_contain_text(value)


def open_panel(page: Page, name: str) -> None:
    """Open the popover whose button starts with a name."""
    button = page.get_by_test_id("stPopover").get_by_role("button", name=re.compile(f"^{name}"))
    button.click()


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def settled(page: Page) -> None:
    """The page's run is over."""
    page.wait_for_function("!document.querySelector('[data-stale=true]')")
    page.get_by_test_id("stStatusWidget").wait_for(state="detached")


@pytest.mark.parametrize("button", ["budget 512", "chunking off", "Pin this run"])
def test_token_budget(timeline: Timeline, button: str):
    page = timeline.page
    timeline.press(button)
    timeline.until("bs.querySelector('.compare b') !== null")
    settled(page)
    open_panel(page, "More settings")
    shows(page, "setting_gpu", "RTX 4090")
    shows(page, "setting_model", "Qwen2.5-7B")
    shows(page, "setting_max_model_len", "8192")
    shows(page, "setting_chunking", True)
    before = query(page)
    widget(page, "setting_prefix_caching").locator("label").click()
    page.wait_for_function("location.search.includes('cache=')")
    settled(page)
    shows(page, "setting_gpu", "RTX 4090")
    assert query(page) == before | {"cache": ["off"]}  # one switch changed one setting


PANELS = [
    ("six_ways?v=1&on_gpu=a100_sxm&tp=2", "All short", "Model and GPU",
     {"six_gpu": "A100", "six_tp": "2"}),
    ("six_ways?v=1&vllm_v1.max_num_batched_tokens=256&vllm_v1.enable_chunked_prefill=on",
     "All short", "vLLM V1",
     {"six_vllm_v1_max_num_batched_tokens": "256", "six_vllm_v1_enable_chunked_prefill": True}),
    ("kv_memory?v=1&engine=vllm_v0&preempt_by=swap&watermark=0.05", "in a step of its own", "Rules",
     {"kv_preempt_by": "swap", "kv_watermark": "5%"}),
    ("kv_memory?v=1&gate=off&reuse=on", "in a step of its own", "Rules",
     {"kv_gate": False, "kv_caching": True}),
    ("disaggregation?v=1&pd.decode_gpu=a100_sxm&pd.budget=256", "Prefill : decode x rate",
     "Servers", {"pd_decode_gpu": "A100", "pd_prefill_gpu": "H100", "pd_budget": "256"}),
    ("disaggregation?v=1&pd.handover_ms=5&pd.streaming=on", "Prefill : decode x rate", "Link",
     {"pd_handover_ms": "5.00", "pd_streaming": True}),
    ("disaggregation?v=1&pd.requests=20&pd.recompute=on", "Prefill : decode x rate",
     "Load and limits", {"pd_requests": "20", "pd_recompute": True}),
    ("real_engine?v=1&vllm_v1.max_num_seqs=7&vllm_v1.long_prefill_token_threshold=16", "",
     "Knobs of",
     {"real_vllm_v1_max_num_seqs": "7", "real_vllm_v1_long_prefill_token_threshold": "16",
      "real_vllm_v1_enable_chunked_prefill": True}),
    ("real_engine?v=1&temperature=0.7&run_seed=9", "", "Sampling",
     {"real_temperature": "0.70", "real_seed": "9"}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "pill", "panel", "expected"), PANELS)
def test_a_panel_opened_late(visit, path: str, pill: str, panel: str, expected: dict):
    opened = visit(f"/{path}", timeline=False)
    page = opened.page
    page.get_by_test_id("stPopover").first.wait_for()
    settled(page)
    if pill:
        page.get_by_role("radio", name=pill).click()
    else:
        page.get_by_text("Your own server").click()
        page.get_by_text("Off on this server").wait_for()
    settled(page)
    open_panel(page, panel)
    for key, value in expected.items():
        shows(page, key, value)
