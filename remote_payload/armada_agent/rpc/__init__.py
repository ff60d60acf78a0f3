"""The conversation with home: requests, answers and the bytes that follow them."""
