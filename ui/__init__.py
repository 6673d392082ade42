"""What the pages share. ui reads sim; nothing in sim knows that ui exists."""
