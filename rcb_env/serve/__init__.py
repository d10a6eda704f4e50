"""An episode for a client outside: `rcb serve`.

session.py  plays one episode with calls that come from elsewhere
mcp.py      brings them over the Model Context Protocol
relay.py    a server over stdio that outlives its client
"""
