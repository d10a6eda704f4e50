"""What people and scripts read of a run: tables, JSON, CSV, and trajectories as text."""
