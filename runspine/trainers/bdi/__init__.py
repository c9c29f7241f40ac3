"""A learning BDI agent: AgentSpeak plans over a table of values, on SPADE and XMPP.

It runs in its own virtualenv (`runspine[spade]`), so nothing here imports torch, grpc or nats.
"""
