"""What kind of page it is (article, product, ...): a small trained model that reads one parse of the page."""
