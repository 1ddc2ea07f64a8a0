"""The models that the book trains."""

from rankbook.models.transformer import TransformerConfig, TransformerLM, initialise, preset

__all__ = ["TransformerConfig", "TransformerLM", "initialise", "preset"]
