"""The real engine on a page: what may be asked of it, the run in its queue, what came out.

Nothing here loads PyTorch before a run is asked for; the app starts and works without it.
"""
