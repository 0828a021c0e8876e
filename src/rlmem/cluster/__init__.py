"""Past one machine: nodes, what a plan asks of them, and where everything goes. Arithmetic only; nothing here imports Ray."""
