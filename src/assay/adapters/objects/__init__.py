"""Documents in object stores, through obstore."""
