"""What sync does, on real servers, and what it decides by."""
