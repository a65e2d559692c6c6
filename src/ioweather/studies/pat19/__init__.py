"""What the whole facility does over months (pat19; car11 section IV)."""
