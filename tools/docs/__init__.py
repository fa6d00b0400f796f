"""The generated parts of the documentation: `docs/reference/*.md`, and quoted output in the other pages."""
