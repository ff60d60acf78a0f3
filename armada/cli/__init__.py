"""The command line: parse arguments, call the code that does the work, print the result. One module for each noun."""
