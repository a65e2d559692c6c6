"""`python -m ioweather`."""

from ioweather.cli.main import main

if __name__ == "__main__":
    main()
