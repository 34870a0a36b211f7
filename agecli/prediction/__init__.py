"""Prediction: photos in, records out."""
