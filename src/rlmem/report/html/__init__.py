"""Reports to look at: one HTML file that needs nothing else, drawn by Python, so that the web pages draw the same."""
