"""Labels: the classes and labels of samples, from names, lists and tables."""
