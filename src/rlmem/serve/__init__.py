"""``rlmem serve``: the planner, live processes and stored runs in a browser; Python plans and draws, the browser shows."""
