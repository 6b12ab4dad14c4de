"""The command line: flags in, one call of a public function, its report out."""
