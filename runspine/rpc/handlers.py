"""Wrapping a gRPC handler, of whichever kind, in a context for the length of its call."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

# Entered with request and context when a call begins; yields what takes the response of a unary call.
CallContext = Callable[[Any, Any], "contextlib.AbstractAsyncContextManager[Callable[[Any], None]]"]


def wrap_handler(handler: Any, around: CallContext) -> Any:
    """The same handler, with every call inside `around`."""
    kinds = {
        "request_deserializer": handler.request_deserializer,
        "response_serializer": handler.response_serializer,
    }
    if handler.response_streaming:
        inner = handler.stream_stream if handler.request_streaming else handler.unary_stream
        make: Any = (
            grpc.stream_stream_rpc_method_handler
            if handler.request_streaming
            else grpc.unary_stream_rpc_method_handler
        )
        return make(_streaming(inner, around), **kinds)
    inner = handler.stream_unary if handler.request_streaming else handler.unary_unary
    make = (
        grpc.stream_unary_rpc_method_handler
        if handler.request_streaming
        else grpc.unary_unary_rpc_method_handler
    )
    return make(_unary(inner, around), **kinds)


def _unary(inner: Any, around: CallContext) -> Any:
    async def behaviour(request: Any, context: Any) -> Any:
        async with around(request, context) as answered:
            response = await inner(request, context)
            answered(response)
            return response

    return behaviour


def _streaming(inner: Any, around: CallContext) -> Any:
    async def behaviour(request: Any, context: Any) -> AsyncIterator[Any]:
        async with around(request, context), contextlib.aclosing(inner(request, context)) as messages:
            async for message in messages:
                yield message

    return behaviour
