"""Node of the online policy distillation bridge"""
