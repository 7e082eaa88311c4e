"""Class-data archives (CDS) of a node, which make drivers start faster: lookup, build process and training run.

Never does: prevent the start of a driver. On any problem a driver starts without an archive.
"""
