"""What Tether's nodes share: topics and QoS, the lifecycle node around a stage, and the way a process runs."""
