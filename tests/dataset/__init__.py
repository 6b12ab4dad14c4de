"""What a data set consists of, and where data sets are found."""
