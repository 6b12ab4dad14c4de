"""What is done to lists: pure functions on tables of rows; others read and write the files."""
