"""Images: read photos and videos, detect faces, and align them so that the eyes are always in the same place."""
