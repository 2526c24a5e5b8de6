"""Engines: where units of work run. Results never depend on the engine."""
