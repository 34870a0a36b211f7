"""Faces in photos: where they are, and how to cut them so that the eyes are always in the same place."""
