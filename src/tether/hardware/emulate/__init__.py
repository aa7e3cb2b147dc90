"""Devices that are not there: servos on a pseudo terminal, an IMU behind smbus2's interface, a camera on a socket.

They speak the bytes that the real ones speak, so that the whole robot runs, and fails, without a robot.
"""
