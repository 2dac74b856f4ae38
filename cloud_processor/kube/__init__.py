"""The Kubernetes shells, and the only home of the `kubernetes` client."""
