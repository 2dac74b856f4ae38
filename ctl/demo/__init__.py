"""`windvane demo`: the real programs on this machine, and a story that shows what they do."""
