"""What an agent remembers: the working memory of a task, and the Redis server it lies in. See docs/memory.md."""
