"""Places: the names and the bytes in a directory, an archive or a prefix on S3, without meaning.

Above `storage`, which has single files; below `sources`, which says what the files are.
"""
