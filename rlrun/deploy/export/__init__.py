"""Export of saved policies for other programs: ONNX graphs and C code, each verified against the original policy."""
