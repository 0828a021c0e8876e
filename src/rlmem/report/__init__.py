"""Renderers: a plan becomes a document (the JSON contract), a document becomes a view, a view is drawn."""
