"""Elements that NumPy has no data type for: text, sequences, missing values, HDF5's types."""
