"""An actor that walks over the frozen lake."""
