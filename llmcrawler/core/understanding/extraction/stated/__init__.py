"""Records of what a page says of itself: JSON-LD, microdata, RDFa, Open Graph and meta elements, without a model."""
