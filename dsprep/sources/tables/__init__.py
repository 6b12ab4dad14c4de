"""Tables: each row is a sample: CSV, NumPy, Parquet."""
