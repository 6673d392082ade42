"""What the pages share, and the parts of each page. ui reads sim; nothing in sim knows ui."""
