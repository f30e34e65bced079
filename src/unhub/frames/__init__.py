"""Tables that others hold: frames and columns of pandas, polars and Arrow, as plain arrays."""
