"""The model: its weights, its forward pass, and the KV tensors that it reads and writes."""
