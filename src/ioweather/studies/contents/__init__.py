"""What lies on the file systems (car11 section IV): sizes, ages, growth."""
