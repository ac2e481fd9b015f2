"""Problems as records: `load` reads a file and its sidecar as text; `suite/` holds shipped ones."""
