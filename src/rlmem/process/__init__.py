"""The live system: limits, processes and GPUs as they are, read as plain values."""
