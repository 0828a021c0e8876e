"""From files to findings: which files, what is asked of them, what is left out, and how fixes are written back."""
