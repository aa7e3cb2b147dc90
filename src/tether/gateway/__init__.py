"""The gateway: calls of task skills over HTTP, in a journal that loses none. See docs/gateway.md."""
