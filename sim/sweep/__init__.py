"""One scenario at every point of a grid."""
