"""The connection with home: requests, answers and the bytes that follow them."""
