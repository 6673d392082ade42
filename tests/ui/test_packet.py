"""The packet: what the browser gets is what happened."""

import numpy as np
import pytest

from sim.core import reasons
from sim.results.run import simulate
from tests.ui import toy
from tests.web import node
from ui.scenarios import presets
from ui.text import explain
from ui.text.explain import KINDS, Limits
from ui.timeline import packet, rows


def lane(recording, budget=512, cap=0, **changes) -> packet.Lane:
    values = {
        "title": "Now", "notes": (), "recording": recording, "label": lambda r: f"request {r}",
        "limits": Limits(budget, cap), "itl_limit_s": 0.05,
    }  # fmt: skip
    return packet.Lane(**values | changes)


@pytest.fixture(scope="module")
def chunked():
    return toy.run(toy.chats_and_document(), budget=512)


@pytest.fixture(scope="module")
def crowd():
    """200 requests of 3 to 60 tokens over two seconds."""
    rng = np.random.default_rng(0)
    arrivals = np.sort(rng.uniform(0, 2, 200))
    return toy.run([(float(t), 40 + i % 400, 3 + i % 58) for i, t in enumerate(arrivals)], 256)


def test_what_is_written_is_read():
    arrays = {"0.a": np.arange(5, dtype=np.uint16), "0.b": np.array([0.5, np.nan], np.float32)}
    header, found = packet.read(packet.write({"version": 1, "lanes": [{"title": "é"}]}, arrays))
    assert header["lanes"] == [{"title": "é"}]
    assert found["0.a"].tolist() == [0, 1, 2, 3, 4]
    assert found["0.b"][0] == 0.5
    assert np.isnan(found["0.b"][1])
    assert found["0.a"].dtype == np.uint16


def test_arrays_are_aligned():
    """A typed array in the browser wants an offset that is a multiple of its width."""
    arrays = {"0.a": np.zeros(3, np.uint8), "0.b": np.zeros(2, np.float32), "0.c": np.zeros(1)}
    packed = packet.write({"lanes": []}, arrays)
    header, _ = packet.read(packed)
    start = 4 + int.from_bytes(packed[:4], "little")
    assert all((start + offset) % 8 == 0 for _, _, offset, _ in header["arrays"])


@pytest.mark.parametrize(("top", "width"), [(0, 1), (255, 1), (256, 2), (65535, 2), (65536, 4)])
def test_integers_take_the_smallest_width(top, width):
    assert packet.smallest(np.array([top])).dtype.itemsize == width


def test_steps_and_tokens_come_through(chunked):
    header, a = packet.read(packet.build([lane(chunked)]))
    (top,) = header["lanes"]
    steps = chunked.steps
    np.testing.assert_allclose(top["t0_s"] + a["0.start"], steps.start_s, atol=1e-6)
    np.testing.assert_allclose(a["0.duration"], steps.duration_s, rtol=1e-6)
    assert a["0.prefill"].tolist() == steps.num_prefill_tokens.tolist()
    assert a["0.decodes"].tolist() == steps.num_decodes.tolist()
    assert top["num_rows"] == 7
    assert top["labels"] == [f"request {r}" for r in range(7)]


def test_every_token_of_every_row_can_be_told(chunked):
    """Runs of decodes and completing chunks together are the tokens that a request emitted."""
    _, a = packet.read(packet.build([lane(chunked)]))
    emitted = np.zeros(7, int)
    for row, first, last in zip(a["0.run_row"], a["0.run_first"], a["0.run_last"], strict=True):
        emitted[row] += int(last) - int(first) + 1
    done = a["0.fact_kind"] == KINDS["chunk_completes"]
    np.add.at(emitted, a["0.fact_request"][done].astype(int) - 1, 1)
    assert emitted.tolist() == chunked.requests.num_output_tokens.tolist()
    assert emitted.sum() == a["0.row_outputs"].sum()


def test_chunks_add_up_to_prompts(chunked):
    _, a = packet.read(packet.build([lane(chunked)]))
    chunk = np.isin(a["0.fact_kind"], [KINDS["chunk"], KINDS["chunk_completes"]])
    computed = np.zeros(7, int)
    np.add.at(computed, a["0.fact_request"][chunk].astype(int) - 1, a["0.fact_a"][chunk])
    assert computed.tolist() == chunked.requests.num_prompt_tokens.tolist()


def test_terms_are_shares_of_the_duration(chunked):
    parts = np.stack([chunked.steps.duration_s * 0.25, chunked.steps.duration_s * 0.75], 1)
    packed = packet.build([lane(chunked, terms=("a", "b"), breakdown_s=parts)])
    _, a = packet.read(packed)
    shares = a["0.terms_share"].reshape(-1, 2) / 32768
    np.testing.assert_allclose(shares, np.broadcast_to([0.25, 0.75], shares.shape), atol=1e-4)


def test_two_lanes_share_a_packet(chunked):
    whole = toy.run(toy.chats_and_document(), budget=8192)
    packed = packet.build([lane(chunked), lane(whole, 8192, title="Pinned")])
    header, a = packet.read(packed)
    assert [top["title"] for top in header["lanes"]] == ["Now", "Pinned"]
    assert len(a["1.start"]) == len(whole.steps)


def test_the_size_that_was_promised():
    """200 steps of 30 requests in about 15 KB."""
    recording = toy.run([(0.01 * i, 200, 180) for i in range(30)], budget=256, max_steps=200)
    parts = np.tile(recording.steps.duration_s[:, None] / 6, 6)
    packed = packet.build([lane(recording, 256, terms=tuple("123456"), breakdown_s=parts)])
    assert len(recording.steps) == 200
    assert len(packed) < 15 * 1024


def test_a_waiting_request_waits_until_its_first_step(chunked):
    _, a = packet.read(packet.build([lane(chunked)]))
    waits = dict(zip(a["0.wait_row"].tolist(), a["0.wait_stop"].tolist(), strict=True))
    chat_5 = chunked.requests[5]
    assert chat_5.first_scheduled_s - chat_5.arrival_s > 0.1
    assert waits[5] == pytest.approx(chat_5.first_scheduled_s, abs=1e-5)


# --- codes travel by name -------------------------------------------------------------------------


def test_every_code_has_its_name_in_the_packet(chunked):
    header, a = packet.read(packet.build([lane(chunked)]))
    assert header["names"]["row_status"] == list(reasons.STATUSES)
    assert header["names"]["row_rejection"] == list(reasons.REJECTIONS)
    for array, names in header["names"].items():
        assert a[f"0.{array}"].max(initial=0) < len(names)
    finished = [header["names"]["row_status"][code] for code in a["0.row_status"]]
    assert finished == ["finished"] * 7


def test_every_rejection_is_in_words():
    words = [explain.REJECTIONS[name] for name in reasons.REJECTIONS]
    assert words[reasons.NOT_REJECTED] == ""
    assert all(words[1:])
    assert len(set(words)) == len(reasons.REJECTIONS)


@pytest.mark.parametrize("code", range(1, len(reasons.REJECTIONS)))
def test_the_browser_says_why_a_request_was_rejected(code):
    trace = toy.run([(0.0, 10, 1)], budget=64, max_steps=0)
    trace.requests.status, trace.requests.rejection = reasons.REJECTED, code
    ((row,),) = node.rows_of(packet.build([lane(trace)]))
    assert row["status"] == "rejected"
    assert row["rejection"] == explain.REJECTIONS[reasons.REJECTIONS[code]]


@pytest.mark.parametrize("code", range(len(reasons.STATUSES)))
def test_the_browser_names_every_status(code):
    trace = toy.run([(0.0, 10, 1)], budget=64)
    trace.requests.status = code
    ((row,),) = node.rows_of(packet.build([lane(trace)]))
    assert row["status"] == reasons.STATUSES[code]


def test_the_browser_draws_what_happened(chunked):
    """Every token and every prompt of the run, and each wait by its kind."""
    (shown,) = node.rows_of(packet.build([lane(chunked)]))
    requests = chunked.requests
    assert [len(row["ticks"]) for row in shown] == requests.num_output_tokens.tolist()
    assert [sum(row["chunks"]) for row in shown] == requests.num_prompt_tokens.tolist()
    first = [row["ticks"][0] for row in shown]
    assert first == pytest.approx(requests.first_token_s.tolist(), abs=1e-5)
    assert "waiting" in shown[5]["waits"]


def test_the_browser_draws_preemptions():
    recording = simulate(presets.scenario_of("kv_preemption")).recording
    (shown,) = node.rows_of(packet.build([lane(recording)]))
    preempted = [row["waits"].count("preempted") for row in shown]
    assert sum(preempted) > 0
    assert preempted == recording.requests.num_preemptions.tolist()


# --- large runs -----------------------------------------------------------------------------------


def test_a_large_run_has_an_overview_and_a_small_window(crowd):
    packed = packet.build([lane(crowd, 256)], packet.Window(start_s=1.0))
    header, a = packet.read(packed)
    (top,) = header["lanes"]
    assert len(packed) < packet.MAX_WINDOW_BYTES
    assert top["num_rows"] == packet.MAX_ROWS
    assert top["overview"][0] == crowd.steps.start_s[0]
    assert a["0.queue_max"].max() == crowd.steps.num_waiting.max()
    assert a["0.worst_gap"].max() == pytest.approx(crowd.requests.max_gap_s.max())
    assert (a["0.fill_min"] <= a["0.fill_mean"]).all()
    assert (a["0.fill_mean"] <= a["0.fill_max"]).all()
    assert top["t0_s"] <= 1.0 < top["t0_s"] + a["0.duration"][0]


def test_rows_of_a_window_are_in_the_system_then(crowd):
    chosen = rows.choose(crowd, "arrival", 0, 40, (1.0, 1.2))
    requests = crowd.requests[chosen.ids]
    assert (requests.arrival_s <= 1.2).all()
    assert (requests.end_s >= 1.0).all()
    assert chosen.ids.tolist() == sorted(chosen.ids.tolist())


@pytest.mark.parametrize("order", ["ttft", "worst gap"])
def test_rows_can_be_ordered_by_what_hurts(crowd, order):
    chosen = rows.choose(crowd, order, 0, 40, (0.0, 100.0))
    requests = crowd.requests[chosen.ids]
    by = requests.max_gap_s if order == "worst gap" else requests.first_token_s - requests.arrival_s
    assert (np.diff(by) <= 0).all()
    assert chosen.total == 200


def test_two_lanes_of_a_large_run_show_the_same_requests(crowd):
    rng = np.random.default_rng(0)
    arrivals = np.sort(rng.uniform(0, 2, 200))
    other = toy.run([(float(t), 40 + i % 400, 3 + i % 58) for i, t in enumerate(arrivals)], 1024)
    packed = packet.build([lane(crowd, 256), lane(other, 1024)], packet.Window(start_s=1.0))
    header, a = packet.read(packed)
    now, beside = header["lanes"]
    assert len(packed) < packet.MAX_WINDOW_BYTES
    assert now["labels"][: now["num_rows"]] == beside["labels"][: beside["num_rows"]]
    end = beside["t0_s"] + a["1.start"][-1]
    assert end <= now["window_end_s"]


def test_an_unknown_order_is_refused():
    with pytest.raises(ValueError, match="arrival, ttft, worst gap, not 'size'"):
        packet.Window(order="size")


def test_a_gap_over_the_edge_of_a_window_keeps_its_length(crowd):
    """A row knows when its last token before the window came."""
    header, a = packet.read(packet.build([lane(crowd, 256)], packet.Window(start_s=1.0)))
    t0, ids = header["lanes"][0]["t0_s"], rows.choose(crowd, "arrival", 0, 40, (1.0, 9.0)).ids
    known = np.flatnonzero(~np.isnan(a["0.row_before"]))
    assert len(known)
    for k in known[:5]:
        mine = crowd.items.request == ids[k]
        emits = mine & (crowd.items.num_tokens == crowd.items.num_needed)
        step = np.repeat(np.arange(len(crowd.steps)), crowd.steps.num_items)[emits]
        ends = (crowd.steps.start_s + crowd.steps.duration_s)[step]
        assert t0 + a["0.row_before"][k] == pytest.approx(ends[ends <= t0 + 1e-9].max(), abs=1e-5)


def test_many_steps_alone_make_a_run_large():
    recording = toy.run([(0.0, 10, 4100)], budget=64)
    packed = packet.build([lane(recording, 64)], packet.Window())
    header, a = packet.read(packed)
    assert header["lanes"][0]["total_steps"] == 4100
    assert len(a["0.start"]) <= packet.WINDOW_STEPS
    assert len(packed) < packet.MAX_WINDOW_BYTES


def test_long_labels_are_cut(chunked):
    header, _ = packet.read(packet.build([lane(chunked, label=lambda r: "x" * 500)]))
    assert {len(label) for label in header["lanes"][0]["labels"]} == {packet.MAX_LABEL}


def test_a_run_without_steps_can_be_packed(chunked):
    nothing = toy.run([(0.0, 10, 1)], budget=64, max_steps=0)
    nothing.requests.status = reasons.REJECTED
    header, a = packet.read(packet.build([lane(nothing)]))
    assert header["lanes"][0]["total_steps"] == 0
    assert len(a["0.start"]) == 0
    assert a["0.row_status"].tolist() == [reasons.REJECTED]
