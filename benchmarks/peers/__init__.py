"""agecli beside other programs that tell ages offline."""
