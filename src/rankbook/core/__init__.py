"""The ground floor: what every other room stands on. It imports torch and psutil only."""
