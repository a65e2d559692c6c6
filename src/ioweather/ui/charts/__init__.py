"""Charts as Vega-Lite specifications, as pictures (render) and in pages (page)."""
