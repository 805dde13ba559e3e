"""What every room needs: checks of arguments, precision, caches."""
