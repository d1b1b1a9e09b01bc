"""Page types of pages: structured data, rules, the model's verdicts, and how the pages of a template share them."""
