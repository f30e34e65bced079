"""Reports: the findings, the verdict, and the page that shows them."""
