"""Annotations: the expensive, deterministic work, done once per distinct source text."""
