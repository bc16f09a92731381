"""Cards: folders that share a policy with the evidence for it, laid out as Hugging Face's model repositories."""
