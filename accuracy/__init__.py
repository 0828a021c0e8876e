"""How far plans are from what runs really take: a corpus, an independent truth, and the page that is written from both."""
