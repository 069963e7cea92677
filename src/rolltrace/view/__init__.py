"""Show: a local web server over `query`. No business logic here."""
