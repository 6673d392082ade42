"""The simulator core: NumPy and Numba; no Streamlit, PyTorch, pandas or Plotly at import."""
