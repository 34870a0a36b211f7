"""Statistics of predictions: arrays in, numbers out."""
