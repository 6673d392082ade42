"""Plotly figures: pure functions of Results, without Streamlit. Fewer than 5,000 points each."""

from ui.charts.latency import itl_over_time, ttft_per_request
from ui.charts.load import kv_use, queue_length

__all__ = ["itl_over_time", "kv_use", "queue_length", "ttft_per_request"]
