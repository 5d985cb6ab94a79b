"""`python -m wirespeed`: the command, of the Python that is running."""

from wirespeed.cli import main

if __name__ == "__main__":
    main()
