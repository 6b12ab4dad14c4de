"""How fast dsprep is beside its peers: data sets, contenders, measuring, report."""
