"""`tether deploy`: models, configuration and signatures onto a robot, whole or not at all, and back again."""
