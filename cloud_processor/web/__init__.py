"""The fleet as a page: a view of all nodes, and the JSON that any worker answers with."""
