"""What a page runs: presets, settings, servers, engines. Imports sim alone, and no Streamlit."""
