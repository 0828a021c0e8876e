"""Documents: every result that is printed, stored or served, as a frozen dataclass."""
