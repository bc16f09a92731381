"""Export of saved policies for other programs: ONNX graphs and C code, verified against the policy when written."""
