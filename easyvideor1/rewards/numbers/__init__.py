"""One reader of numbers: value, unit and what the rest of the text does to them; times are numbers with units."""
