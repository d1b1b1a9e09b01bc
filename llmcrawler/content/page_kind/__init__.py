"""What kind of page it is (article, product, forum thread, ...), by a small trained model over one parse of the page."""
