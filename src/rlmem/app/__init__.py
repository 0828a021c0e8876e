"""The use cases: one module each, a typed request in, a typed document out. No command line, no web server, no printing."""
