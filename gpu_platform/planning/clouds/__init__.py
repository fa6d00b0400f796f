"""How each provider checks, plans and looks up pools and clusters; one subpackage per provider."""
