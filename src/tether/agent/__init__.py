"""The agent: task skills that are proved before they are registered, and verified by sensors after they ran.

See docs/agent.md.
"""
