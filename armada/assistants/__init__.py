"""The server for coding assistants (`armada mcp`): commands of armada as tools of the Model Context Protocol."""
