"""The messages between home and host as types, one module a family; `remote_payload/protocol.json` is made from them."""
