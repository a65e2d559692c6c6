"""What to do about it: answers in words, from the science below."""
