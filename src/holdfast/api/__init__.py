"""What a node serves over HTTP. Reads only, so far: nothing here changes anything."""
