"""TensorRT: engines built from the shipped ONNX files, kept on this machine, never trusted blindly."""
