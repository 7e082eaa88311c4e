"""How fast `holdfast explain` reads, against what others do with the same bytes."""
