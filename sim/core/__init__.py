"""What the kernels read and change: the state of a replica, its KV cache, its queues."""
