"""Terms, numbers, sentences about runs: pure functions without Streamlit."""
