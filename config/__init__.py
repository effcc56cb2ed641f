"""The process: settings, addresses, workers. Imports every app and is imported by none."""
