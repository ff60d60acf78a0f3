"""The messages between home and host as types, one module per family; `remote_payload/protocol.json` is generated from them."""
