"""Records: what a template's pages say, learned with a few calls of the model, then taken from the page by selectors."""
