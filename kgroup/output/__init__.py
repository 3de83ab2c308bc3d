"""Drawing what commands return. The only place that knows formats, widths and colours."""
