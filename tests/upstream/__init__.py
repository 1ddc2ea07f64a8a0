"""Defects of torch, each as a program that needs nothing of ours, and what comes of it today."""
