"""The page on prefill/decode disaggregation: two pools of servers beside the same servers, each
doing both."""
