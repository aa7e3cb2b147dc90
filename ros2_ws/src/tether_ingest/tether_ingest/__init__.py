"""Nodes that judge what the sensors send"""
