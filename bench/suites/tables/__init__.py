"""Files into whole tables and out of them, beside dsbulk and cqlsh."""
