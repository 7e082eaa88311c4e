"""Reading speed of `holdfast explain`, compared with other tools on the same files."""
