"""What surrounds a page: frame, navigation, session, address, forms, background jobs."""
