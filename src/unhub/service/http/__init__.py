"""HTTP: the API and the pages, who may call, and the server."""
