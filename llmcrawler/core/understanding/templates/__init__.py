"""Groups a site's pages by the template that made them, while they come."""
