"""Are two mathematical answers the same: by kind, exactly where that is cheap, by computer algebra where it is not."""
