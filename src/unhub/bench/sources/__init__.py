"""Where vectors come from: ready files or an encoder."""
