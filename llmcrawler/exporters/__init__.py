"""Feed exporters."""
