"""Questions that a simulated facility can be asked, and how near the answers come to what was planted."""
