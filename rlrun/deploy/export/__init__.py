"""Saved policies as files for other programs: ONNX graphs and C code, compared with the policy when written."""
