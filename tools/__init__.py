"""Programs for people who work on this repository; they are not installed with the package."""
