"""What every other package uses: errors, settings, ages, files, seeds and worker processes."""
