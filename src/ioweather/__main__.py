"""`python -m ioweather`."""

from ioweather.ui.cli.main import main

if __name__ == "__main__":
    main()
