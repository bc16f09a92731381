"""Cards: folders for sharing a policy with the evidence for its results, laid out as on Hugging Face."""
