"""A BDI agent that learns: AgentSpeak plans over a table of values, on SPADE and XMPP.

Runs in a virtualenv of its own (`runspine[spade]`), so nothing here imports torch, grpc or nats.
"""
