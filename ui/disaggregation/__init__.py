"""The page Disaggregation: two pools of servers beside the same servers, co-located."""
