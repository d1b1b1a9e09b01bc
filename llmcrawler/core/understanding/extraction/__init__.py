"""Records: learned from a few pages of a template with the model, then taken from every page by selectors."""
